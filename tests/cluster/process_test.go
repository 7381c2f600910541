package main

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestParseStatReadsANameWithBracketsAndBlanks(t *testing.T) {
	fields := "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 20 21"
	tick, state, err := parseStat("17 (a) b (c)) " + fields)
	if err != nil || tick != 4242 || state != "S" {
		t.Fatalf("got %d, %q, %v", tick, state, err)
	}
}

func TestParseStatRefusesWhatIsNotStat(t *testing.T) {
	for _, text := range []string{"", "17 (a", "17 (a) S 1"} {
		if _, _, err := parseStat(text); err == nil {
			t.Errorf("%q was read", text)
		}
	}
}

func TestAReusedPidIsNotTheRecordedProcess(t *testing.T) {
	tick, _, err := processIdentity(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	self := process{PID: os.Getpid(), StartTick: tick, BootID: bootID()}
	if !self.alive() {
		t.Error("this process is not alive")
	}
	later, otherBoot := self, self
	later.StartTick++
	otherBoot.BootID = "another"
	if later.alive() || otherBoot.alive() {
		t.Error("a record of another process with this pid is alive")
	}
	if (*process)(nil).alive() {
		t.Error("no record is alive")
	}
}

func TestAProcessDoesNotInheritWhatTheCallerHadOpen(t *testing.T) {
	inherited, err := syscall.Open(os.DevNull, syscall.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(inherited)
	path := "/proc/self/fd/" + strconv.Itoa(inherited)
	if exec.Command("test", "-e", path).Run() != nil {
		t.Fatal("the file was not inherited before either")
	}
	keepOpenFiles()
	if exec.Command("test", "-e", path).Run() == nil {
		t.Error("the process inherited the file")
	}
}

func newState(t *testing.T) *State {
	t.Helper()
	s := &State{Dir: t.TempDir(), PortBase: 16000}
	if err := s.create(); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStartIsIdempotentAndStopEndsTheProcess(t *testing.T) {
	s := newState(t)
	for round, want := range []bool{true, false} {
		started, err := s.start("sleeper", "sleep", "600")
		if err != nil || started != want {
			t.Fatalf("start %d: %v, %v", round, started, err)
		}
	}
	record := s.find("sleeper")
	if err := s.stop("sleeper", syscall.SIGTERM, 10*time.Second); err != nil {
		t.Fatal(err)
	}
	if record.alive() || s.find("sleeper") != nil {
		t.Error("the process or its record is still there")
	}
}

func TestStopLeavesAForeignProcessWithTheSamePidAlone(t *testing.T) {
	s := newState(t)
	foreign := exec.Command("sleep", "600")
	if err := foreign.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { foreign.Process.Kill(); foreign.Wait() }()
	if _, err := s.start("sleeper", "sleep", "600"); err != nil {
		t.Fatal(err)
	}
	record := s.find("sleeper")
	defer syscall.Kill(record.PID, syscall.SIGKILL)
	// The record of a pid that now belongs to a process with another start time.
	text := `{"pid": ` + strconv.Itoa(foreign.Process.Pid) + `, "startTick": 1, "bootID": "` + bootID() + `"}`
	if err := os.WriteFile(s.recordPath("sleeper"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := s.stop("sleeper", syscall.SIGKILL, time.Second); err != nil {
		t.Fatal(err)
	}
	if _, state, err := processIdentity(foreign.Process.Pid); err != nil || state == "Z" {
		t.Errorf("the foreign process was killed: %q, %v", state, err)
	}
}

func TestAPartThatDiesIsReportedWithItsLog(t *testing.T) {
	s := newState(t)
	if _, err := s.start("broken", "sh", "-c", "echo the reason; exit 3"); err != nil {
		t.Fatal(err)
	}
	err := s.waitFor("broken", time.Minute, []string{"broken"}, func() error { return os.ErrNotExist })
	if err == nil || !strings.Contains(err.Error(), "the reason") {
		t.Errorf("got %v", err)
	}
}
