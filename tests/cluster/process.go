package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// process is the record of a process that the driver started. A pid alone can
// be reused, so the start time and the boot it belongs to are kept with it.
type process struct {
	Name      string   `json:"name"`
	PID       int      `json:"pid"`
	StartTick uint64   `json:"startTick"` // field 22 of /proc/PID/stat
	BootID    string   `json:"bootID"`
	Command   []string `json:"command"`
}

// keepOpenFiles keeps what the caller had open (a lock, a pipe) from the processes
// that are started: they outlive it, and would hold it.
func keepOpenFiles() {
	const standardStreams = 3
	_ = unix.CloseRange(standardStreams, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC)
}

// alive is true while the very process that was recorded runs.
func (p *process) alive() bool {
	if p == nil || p.BootID != bootID() {
		return false
	}
	tick, state, err := processIdentity(p.PID)
	return err == nil && tick == p.StartTick && state != "Z" && state != "X"
}

func bootID() string {
	text, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(text))
}

// processIdentity reads when a process started and its state letter.
func processIdentity(pid int) (tick uint64, state string, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, "", err
	}
	return parseStat(string(text))
}

// parseStat reads fields 22 and 3 of /proc/PID/stat. Field 2, the program's
// name, is in brackets and may hold spaces and brackets itself.
func parseStat(text string) (tick uint64, state string, err error) {
	end := strings.LastIndex(text, ")")
	if end < 0 {
		return 0, "", errors.New("no program name in stat")
	}
	fields := strings.Fields(text[end+1:])
	if len(fields) < 20 {
		return 0, "", errors.New("too few fields in stat")
	}
	tick, err = strconv.ParseUint(fields[19], 10, 64)
	return tick, fields[0], err
}

func (s *State) recordPath(name string) string { return s.Path("processes", name+".json") }
func (s *State) logPath(name string) string    { return s.Path("logs", name+".log") }

// find reads the record of a process; nil when there is none.
func (s *State) find(name string) *process {
	text, err := os.ReadFile(s.recordPath(name))
	if err != nil {
		return nil
	}
	record := &process{}
	if json.Unmarshal(text, record) != nil {
		return nil
	}
	return record
}

// start runs a program in its own session with its output in its log, and
// records it. A process of that name that still runs is left alone, and
// started is false.
func (s *State) start(name string, arguments ...string) (started bool, err error) {
	if s.find(name).alive() {
		return false, nil
	}
	log, err := os.OpenFile(s.logPath(name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return false, err
	}
	defer log.Close()
	fmt.Fprintf(log, "=== %s: %s\n", time.Now().UTC().Format(time.RFC3339), strings.Join(arguments, " "))
	command := exec.Command(arguments[0], arguments[1:]...)
	command.Stdout, command.Stderr = log, log
	command.Dir = s.Dir
	// Settings of the caller's environment (ETCD_*, KUBECONFIG, proxies) must not reach the parts.
	command.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + s.Dir}
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := command.Start(); err != nil {
		return false, fmt.Errorf("cannot start %s: %w", name, err)
	}
	tick, _, err := processIdentity(command.Process.Pid)
	if err != nil {
		return false, err
	}
	// It is a child of this driver while the driver runs: reap it if it dies early.
	go command.Wait()
	record := process{Name: name, PID: command.Process.Pid, StartTick: tick, BootID: bootID(), Command: arguments}
	text, err := json.MarshalIndent(record, "", "  ")
	if err != nil {
		return false, err
	}
	return true, os.WriteFile(s.recordPath(name), append(text, '\n'), 0o644)
}

// startPart starts a part of this binary under its own name.
func (s *State) startPart(name string, flags ...string) error {
	_, err := s.start(name, append([]string{executable(), name}, flags...)...)
	return err
}

func executable() string {
	path, err := os.Executable()
	if err != nil {
		return "/proc/self/exe"
	}
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		return resolved
	}
	return path
}

// stop ends a process: the signal first, SIGKILL when it has not gone after
// patience. A process that is not the recorded one is never touched.
func (s *State) stop(name string, signal syscall.Signal, patience time.Duration) error {
	record := s.find(name)
	if record.alive() {
		if err := syscall.Kill(record.PID, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("cannot stop %s (pid %d): %w", name, record.PID, err)
		}
		if !waitGone(record, patience) {
			syscall.Kill(record.PID, syscall.SIGKILL)
			if !waitGone(record, 10*time.Second) {
				return fmt.Errorf("%s (pid %d) did not end after SIGKILL; see %s", name, record.PID, s.logPath(name))
			}
		}
	}
	if err := os.Remove(s.recordPath(name)); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}

func waitGone(record *process, patience time.Duration) bool {
	for deadline := time.Now().Add(patience); record.alive(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// died describes a process that ended by itself, with the end of its log.
func (s *State) died(name string) error {
	return fmt.Errorf("the end of %s:\n%s\n%s ended right after its start; its log says why", s.logPath(name), tail(s.logPath(name), 15), name)
}

func tail(path string, lines int) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// waitFor polls a condition while the named processes live.
func (s *State) waitFor(what string, patience time.Duration, names []string, condition func() error) error {
	deadline := time.Now().Add(patience)
	for {
		err := condition()
		if err == nil {
			return nil
		}
		for _, name := range names {
			if !s.find(name).alive() {
				return s.died(name)
			}
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s did not become ready in %s (%v); see the logs in %s", what, patience, err, s.Path("logs"))
		}
		time.Sleep(100 * time.Millisecond)
	}
}
