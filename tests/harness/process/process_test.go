package process

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"idempotencyd/tests/harness/eventually"
)

// Set in a copy of this test program that is to start a child and be killed.
const parentVariable = "HARNESS_TEST_PARENT"

func TestMain(m *testing.M) {
	if os.Getenv(parentVariable) == "" {
		os.Exit(m.Run())
	}
	child, err := Start(Command{Program: "/bin/sleep", Arguments: []string{"1000"}})
	if err != nil {
		panic(err)
	}
	os.Stdout.WriteString(strconv.Itoa(child.Pid()) + "\n")
	select {}
}

func start(t *testing.T, command Command) *Process {
	t.Helper()
	started, err := Start(command)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(started.Kill)
	return started
}

func alive(pid int) bool {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	return err == nil && !strings.Contains(string(status), "State:\tZ")
}

func TestAChildEndsWithAParentThatIsKilled(t *testing.T) {
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), parentVariable+"=1")
	output, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	if !alive(pid) {
		t.Fatal("the child does not run")
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	eventually.True(t, "the child has ended", func() bool { return !alive(pid) })
}

func TestOutputGoesToTheLogsEnd(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	for _, word := range []string{"one", "two"} {
		script := "echo " + word + "; echo " + word + " >&2"
		if err := start(t, Command{Program: "/bin/sh", Arguments: []string{"-c", script}, Log: log}).Wait(); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(log)
	if err != nil || string(text) != "one\none\ntwo\ntwo\n" {
		t.Errorf("%q, %v", text, err)
	}
}

func TestNothingOfTheEnvironmentIsInherited(t *testing.T) {
	t.Setenv("IDEMPOTENCY_LISTEN", "somewhere")
	log := filepath.Join(t.TempDir(), "log")
	command := Command{Program: "/usr/bin/env", Environment: []string{"GIVEN=1"}, Log: log}
	if err := start(t, command).Wait(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(log)
	if err != nil || strings.Contains(string(text), "IDEMPOTENCY") || !strings.Contains(string(text), "GIVEN=1") {
		t.Errorf("%q, %v", text, err)
	}
}

func TestAddressesAreTheSameInEveryLife(t *testing.T) {
	if exec.Command("setarch", "--addr-no-randomize", "true").Run() != nil {
		t.Skip("not allowed here")
	}
	stack := func() string {
		log := filepath.Join(t.TempDir(), "log")
		command := Command{Program: "/bin/grep", Arguments: []string{"stack", "/proc/self/maps"}, Log: log}
		if err := start(t, command).Wait(); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if one, two := stack(), stack(); one != two {
		t.Errorf("%s%s", one, two)
	}
}

func TestWaitTellsHowItEnded(t *testing.T) {
	err := start(t, Command{Program: "/bin/sh", Arguments: []string{"-c", "exit 3"}}).Wait()
	if err == nil || !strings.Contains(err.Error(), "3") {
		t.Error(err)
	}
}

func TestStopKillsWhatDoesNotEnd(t *testing.T) {
	directory := t.TempDir()
	ready := filepath.Join(directory, "ready")
	script := "trap '' TERM; touch " + ready + "; while :; do sleep 1; done"
	stubborn := start(t, Command{Program: "/bin/sh", Arguments: []string{"-c", script}})
	eventually.True(t, "the signal is ignored", func() bool {
		_, err := os.Stat(ready)
		return err == nil
	})
	if err := stubborn.Stop(syscall.SIGTERM, time.Millisecond); err == nil {
		t.Error("it ended by itself")
	}
	if stubborn.Running() {
		t.Error("it still runs")
	}
}

func TestAProgramThatIsNotThereIsAFault(t *testing.T) {
	if _, err := Start(Command{Program: "/nowhere/program"}); err == nil {
		t.Error("it was started")
	}
}
