package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"idempotencyd/tests/harness/eventually"
)

// Set in a copy of this test program that is to be the host.
const hostVariable = "HARNESS_TEST_HOST"

func TestMain(m *testing.M) {
	if os.Getenv(hostVariable) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

type runningHost struct {
	command *exec.Cmd
	stdin   io.WriteCloser
	address string
}

func startHost(t *testing.T, arguments ...string) *runningHost {
	t.Helper()
	if os.Getenv(binaryVariable) == "" {
		t.Skip(binaryVariable + " names no binary")
	}
	arguments = append(arguments, "--scenarios=../../../../client/scenarios")
	command := exec.Command(os.Args[0], arguments...)
	command.Env = append(os.Environ(), hostVariable+"=1")
	command.Stderr = os.Stderr
	stdin, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = command.Process.Kill() })
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	var ready struct {
		Address string `json:"address"`
	}
	if err := json.Unmarshal(line, &ready); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return &runningHost{command: command, stdin: stdin, address: ready.Address}
}

// Opens a session with a service of its own.
func (h *runningHost) open(t *testing.T) {
	t.Helper()
	body := `{"scenario": "lost_answers/replica_killed", "language": "test"}`
	answer, err := http.Post(h.address+"/sessions", "application/json", bytes.NewBufferString(body))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Fatal(answer.Status)
	}
}

// All processes below the host, and those below them.
func (h *runningHost) descendants(t *testing.T) []int {
	t.Helper()
	parents := map[int]int{}
	paths, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		// The name, in brackets, may hold anything.
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		parents[pid], _ = strconv.Atoi(fields[1])
	}
	var below []int
	for pid := range parents {
		for above := parents[pid]; above > 1; above = parents[above] {
			if above == h.command.Process.Pid {
				below = append(below, pid)
			}
		}
	}
	return below
}

func gone(pid int) bool {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	return err != nil || strings.Contains(string(status), "State:\tZ")
}

func expectNothingLeft(t *testing.T, pids []int) {
	t.Helper()
	// PostgreSQL with its helpers, and two replicas.
	if len(pids) < 4 {
		t.Fatalf("the host had only %v", pids)
	}
	eventually.True(t, "the host's processes have ended", func() bool {
		for _, pid := range pids {
			if !gone(pid) {
				return false
			}
		}
		return true
	})
}

func TestAKilledHostLeavesNoProcess(t *testing.T) {
	host := startHost(t)
	host.open(t)
	below := host.descendants(t)
	if err := host.command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = host.command.Wait()
	expectNothingLeft(t, below)
}

func TestAHostEndsWithItsStandardInput(t *testing.T) {
	file := filepath.Join(t.TempDir(), "address")
	host := startHost(t, "--stdin-ends", "--address-file="+file)
	host.open(t)
	eventually.True(t, "the address is in the file", func() bool {
		text, err := os.ReadFile(file)
		return err == nil && strings.TrimSpace(string(text)) == host.address
	})
	below := host.descendants(t)
	host.stdin.Close()
	if err := host.command.Wait(); err != nil {
		t.Error(err)
	}
	expectNothingLeft(t, below)
}

func TestAHostEndsOnSIGTERM(t *testing.T) {
	host := startHost(t)
	host.open(t)
	below := host.descendants(t)
	if err := host.command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := host.command.Wait(); err != nil {
		t.Error(err)
	}
	expectNothingLeft(t, below)
}

func TestAHostWithoutABinaryTellsHowToUseIt(t *testing.T) {
	command := exec.Command(os.Args[0], "--idempotencyd=")
	command.Env = append(os.Environ(), hostVariable+"=1")
	output, err := command.CombinedOutput()
	if err == nil || !strings.Contains(string(output), "Usage:") {
		t.Errorf("%v: %s", err, output)
	}
}
