package main

import (
	"errors"
	"io"
)

type agentClient struct{}

func (s *State) agent() agentClient                      { return agentClient{} }
func (agentClient) importImage(string) ([]string, error) { return nil, errors.New("todo") }
func (agentClient) put(string, io.Reader) error          { return errors.New("todo") }
func runAgent([]string) int                              { return 1 }
func runNumaNodeUp(*State, []string) error               { return errors.New("todo") }
func runVMExec(*State, []string) error                   { return errors.New("todo") }
func runVMLog(*State, []string) error                    { return errors.New("todo") }
func (s *State) machineDown() error                      { return nil }
