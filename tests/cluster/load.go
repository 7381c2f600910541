package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// runLoad imports archives into each node that is up. An archive that a node
// has already, by path, size and time, is not imported again.
func runLoad(s *State, archives []string) error {
	if len(archives) == 0 {
		return errors.New("name at least one image archive (docker-archive or oci-archive)")
	}
	if err := s.lock(); err != nil {
		return err
	}
	nodes := s.nodesUp()
	if len(nodes) == 0 {
		return errors.New("no node is up; start one with testcluster node-up")
	}
	for _, node := range nodes {
		path := s.Path("loaded-" + node + ".json")
		known := readLoaded(path)
		for _, archive := range archives {
			identity, err := fileIdentity(archive)
			if err != nil {
				return err
			}
			if names, ok := known[identity]; ok {
				report(node, "has %s already", strings.Join(names, ", "))
				continue
			}
			began := time.Now()
			names, err := s.importInto(node, archive)
			if err != nil {
				return fmt.Errorf("cannot import %s into %s: %w", archive, node, err)
			}
			report(node, "imported %s in %s", strings.Join(names, ", "), since(began))
			known[identity] = names
			if err := known.write(path); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *State) nodesUp() []string {
	var nodes []string
	if s.find("containerd").alive() {
		nodes = append(nodes, node0)
	}
	if s.find("virtual-machine").alive() {
		nodes = append(nodes, numaNode)
	}
	return nodes
}

func (s *State) importInto(node, archive string) ([]string, error) {
	if node == node0 {
		return s.node0Runtime().importImage(archive)
	}
	return s.agent().importImage(archive)
}

// runCopy puts a file on a node; missing folders are made.
func runCopy(s *State, arguments []string) error {
	if len(arguments) != 2 {
		return errors.New("give a file and NODE:/PATH")
	}
	node, path, ok := strings.Cut(arguments[1], ":")
	if !ok || !strings.HasPrefix(path, "/") || (node != node0 && node != numaNode) {
		return fmt.Errorf("%q is not %s:/PATH or %s:/PATH", arguments[1], node0, numaNode)
	}
	began := time.Now()
	file, err := os.Open(arguments[0])
	if err != nil {
		return err
	}
	defer file.Close()
	if node == node0 {
		err = writeFile(path, file)
	} else if !s.find("virtual-machine").alive() {
		err = errors.New("it is not up; start it with testcluster numa-node-up")
	} else {
		err = s.agent().put(path, file)
	}
	if err != nil {
		return fmt.Errorf("cannot copy to %s: %w", node, err)
	}
	report(node, "has %s, copied in %s", path, since(began))
	return nil
}

// writeFile writes a file that appears whole or not at all.
func writeFile(path string, content io.Reader) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".copy-*")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	_, err = io.Copy(file, content)
	if closing := file.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = os.Chmod(file.Name(), 0o644)
	}
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	return err
}
