// Package host holds the few things that the driver and the program inside the
// virtual machine both do to the machine they run on.
package host

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Quietly runs a command; the end of its output is part of the error when it fails.
func Quietly(command *exec.Cmd) error {
	output, err := command.CombinedOutput()
	if err == nil {
		return nil
	}
	lines := strings.Split(strings.TrimSpace(string(output)), "\n")
	return fmt.Errorf("%s\n%s: %w", strings.Join(lines[max(0, len(lines)-10):], "\n"), strings.Join(command.Args, " "), err)
}

// RunAll runs simple commands one after the other, up to the first that fails.
// Their arguments hold no blanks.
func RunAll(lines ...string) error {
	for _, line := range lines {
		fields := strings.Fields(line)
		if err := Quietly(exec.Command(fields[0], fields[1:]...)); err != nil {
			return err
		}
	}
	return nil
}

// ReadSysctl reads a kernel setting, named by its path below /proc/sys.
func ReadSysctl(name string) (string, error) {
	text, err := os.ReadFile(filepath.Join("/proc/sys", name))
	return strings.TrimSpace(string(text)), err
}

// WriteSysctl sets a kernel setting.
func WriteSysctl(name, value string) error {
	return os.WriteFile(filepath.Join("/proc/sys", name), []byte(value), 0o644)
}

// WriteFile writes a file that appears whole or not at all; it makes the folders.
func WriteFile(path string, content io.Reader) error {
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

// Listens is nil when something listens on a Unix socket.
func Listens(socket string) error {
	connection, err := net.Dial("unix", socket)
	if err != nil {
		return err
	}
	return connection.Close()
}

// ImportImage reads a docker or OCI archive into the containerd of a socket and
// returns the names it brought.
func ImportImage(socket, archive string) ([]string, error) {
	// A busy machine may take long to answer.
	command := exec.Command("ctr", "--connect-timeout", "5m", "--address", socket, "--namespace", "k8s.io", "images", "import", archive)
	output, err := command.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("ctr images import %s: %w: %s", archive, err, strings.TrimSpace(string(output)))
	}
	return importedNames(string(output)), nil
}

// importedNames reads ctr's lines "unpacking NAME (DIGEST)...done".
func importedNames(output string) []string {
	var names []string
	for _, line := range strings.Split(output, "\n") {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), "unpacking "); ok {
			names = append(names, strings.Fields(rest)[0])
		}
	}
	return names
}
