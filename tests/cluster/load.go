package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"llama-operator.dev/testcluster/internal/host"
)

// runLoad imports archives into each node that is up. An archive that a node
// has already, by path, size and time, is not imported again.
func runLoad(s *State, archives []string) error {
	if len(archives) == 0 {
		return errors.New("name at least one image archive (docker-archive or oci-archive)")
	}
	nodes := s.nodesUp()
	if len(nodes) == 0 {
		return errors.New("no node is up; start one with testcluster node-up")
	}
	return s.locked(func() error { return s.load(nodes, archives) })
}

func (s *State) load(nodes, archives []string) error {
	for _, node := range nodes {
		path := s.loadedPath(node)
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

func (s *State) loadedPath(node string) string { return s.Path("loaded-" + node + ".json") }

func (s *State) nodesUp() []string {
	var nodes []string
	if s.find("containerd").alive() {
		nodes = append(nodes, node0)
	}
	if s.find(machineProcess).alive() {
		if s.nodeReady(numaNode) == nil {
			nodes = append(nodes, numaNode)
		} else {
			report(numaNode, "not ready, so nothing is loaded into it now")
		}
	}
	return nodes
}

func (s *State) importInto(node, archive string) ([]string, error) {
	if node == node0 {
		return host.ImportImage(s.node0Runtime().socket(), archive)
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
		err = host.WriteFile(path, file)
	} else if err = s.needNumaNode(); err == nil {
		err = s.agent().put(path, file)
	}
	if err != nil {
		return fmt.Errorf("cannot copy to %s: %w", node, err)
	}
	report(node, "has %s, copied in %s", path, since(began))
	return nil
}

// loaded remembers which archives a node has, by the identity of the file.
type loaded map[string][]string

func readLoaded(path string) loaded {
	known := loaded{}
	if text, err := os.ReadFile(path); err == nil {
		json.Unmarshal(text, &known) // an unreadable record only costs an import
	}
	return known
}

func (l loaded) write(path string) error {
	text, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}

// fileIdentity changes when the file does.
func fileIdentity(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s %d %d", path, info.Size(), info.ModTime().UnixNano()), nil
}
