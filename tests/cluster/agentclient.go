package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"llama-operator.dev/testcluster/internal/machine"
)

const agentPort = 7080

// agentClient asks the agent of the virtual machine.
type agentClient struct {
	base, token string
	http        *http.Client
}

func (s *State) agent() *agentClient {
	token, _ := os.ReadFile(s.Path("machine", "token"))
	// No proxy: the machine is on a link of ours.
	return &agentClient{fmt.Sprintf("http://%s:%d", numaNodeAddress, agentPort), string(token), &http.Client{Transport: &http.Transport{}}}
}

// do sends a request and returns the response when its status is 200.
func (c *agentClient) do(method, path string, body io.Reader) (*http.Response, error) {
	request, err := http.NewRequest(method, c.base+path, body)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+c.token)
	response, err := c.http.Do(request)
	if err != nil {
		return nil, fmt.Errorf("the agent of %s does not answer: %w", numaNode, err)
	}
	if response.StatusCode != http.StatusOK {
		defer response.Body.Close()
		text, _ := io.ReadAll(response.Body)
		return nil, fmt.Errorf("%s: %s", response.Status, strings.TrimSpace(string(text)))
	}
	return response, nil
}

func (c *agentClient) text(method, path string, body io.Reader) (string, error) {
	response, err := c.do(method, path, body)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return string(text), err
}

// stage is what the machine is doing; an error while it boots.
func (c *agentClient) stage() (string, error) {
	quick := *c
	quick.http = &http.Client{Transport: c.http.Transport, Timeout: 5 * time.Second}
	return quick.text("GET", "/stage", nil)
}

func (c *agentClient) importImage(archive string) ([]string, error) {
	file, err := os.Open(archive)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := c.text("POST", "/images", file)
	return strings.Fields(text), err
}

func (c *agentClient) put(path string, content io.Reader) error {
	_, err := c.text("PUT", "/files"+path, content)
	return err
}

func (s *State) needNumaNode() error {
	if !s.find(machineProcess).alive() {
		return errors.New(numaNode + " is not up; start it with testcluster numa-node-up")
	}
	return nil
}

// runVMExec runs a command in the virtual machine, with its output and exit code.
func runVMExec(s *State, arguments []string) error {
	if len(arguments) == 0 {
		return errors.New("give a command")
	}
	if err := s.needNumaNode(); err != nil {
		return err
	}
	body, err := json.Marshal(arguments)
	if err != nil {
		return err
	}
	response, err := s.agent().do("POST", "/exec", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.Copy(os.Stdout, response.Body); err != nil {
		return err
	}
	code, err := strconv.Atoi(response.Trailer.Get(machine.ExitCodeTrailer))
	if err != nil {
		return fmt.Errorf("the agent gave no exit code: %w", err)
	}
	if code != 0 {
		return exitCode(code)
	}
	return nil
}

func runVMLog(s *State, arguments []string) error {
	if len(arguments) != 1 {
		return errors.New("give one name: containerd, kubelet, kube-proxy or fake-gpus")
	}
	if err := s.needNumaNode(); err != nil {
		return err
	}
	response, err := s.agent().do("GET", "/logs/"+arguments[0], nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, err = io.Copy(os.Stdout, response.Body)
	return err
}
