// Package process starts child processes that end with this one, whatever becomes of it.
package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// Command is what to start.
type Command struct {
	// Program is a path; Arguments go without it.
	Program   string
	Arguments []string
	// Environment ("NAME=VALUE") beside PATH, HOME and LC_ALL. Nothing else is inherited.
	Environment []string
	// Directory to start in. Empty: the present one.
	Directory string
	// User to become; only root may. Empty: the present one.
	User string
	// Log is the file that gets standard output and standard error at its end. Empty: neither is kept.
	Log string
	// DeathSignal is sent to the child when this process ends, however it does. 0: SIGKILL.
	DeathSignal syscall.Signal
}

// Process is a started child. Safe for concurrent use.
type Process struct {
	command *exec.Cmd
	done    chan struct{}
	err     error // Set before done is closed.
}

// The kernel sends the death signal when the thread that started the child ends, not the process.
// So all children are started by one thread that stays.
var starter = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		keepAddresses()
		for do := range work {
			do()
		}
	}()
	return work
})

// Programs built with sanitizers map fixed addresses, and die at start, now and then, on kernels that
// randomise more bits than they expect. Children inherit this from the thread.
func keepAddresses() {
	const read, noRandomAddresses = 0xffffffff, 0x0040000
	now, _, failed := syscall.RawSyscall(syscall.SYS_PERSONALITY, read, 0, 0)
	if failed == 0 {
		// Where it is forbidden we go without.
		_, _, _ = syscall.RawSyscall(syscall.SYS_PERSONALITY, now|noRandomAddresses, 0, 0)
	}
}

// Start starts a child in a process group of its own: Ctrl-C in the terminal does not reach it.
func Start(command Command) (*Process, error) {
	attributes := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: command.DeathSignal}
	if attributes.Pdeathsig == 0 {
		attributes.Pdeathsig = syscall.SIGKILL
	}
	home := os.Getenv("HOME")
	if command.User != "" {
		account, credential, err := lookUp(command.User)
		if err != nil {
			return nil, err
		}
		home = account.HomeDir
		attributes.Credential = credential
	}
	child := exec.Command(command.Program, command.Arguments...)
	child.Dir = command.Directory
	child.Env = append([]string{
		"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C.UTF-8", "HOME=" + home,
	}, command.Environment...)
	child.SysProcAttr = attributes
	if command.Log != "" {
		log, err := os.OpenFile(command.Log, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		defer log.Close()
		child.Stdout, child.Stderr = log, log
	}
	started := make(chan error)
	starter() <- func() { started <- child.Start() }
	if err := <-started; err != nil {
		return nil, err
	}
	process := &Process{command: child, done: make(chan struct{})}
	go func() {
		process.err = child.Wait()
		close(process.done)
	}()
	return process, nil
}

// Pid is the child's process id.
func (p *Process) Pid() int { return p.command.Process.Pid }

// Done is closed when the child has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Running tells whether the child has not ended.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Wait waits for the child's end: nil for status 0, else how it ended.
func (p *Process) Wait() error {
	<-p.done
	return p.err
}

// Signal sends a signal. A child that has ended gets none.
func (p *Process) Signal(signal syscall.Signal) error {
	err := p.command.Process.Signal(signal)
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// Kill sends SIGKILL and returns when the child is gone.
func (p *Process) Kill() {
	// It fails only for a child that is no more.
	_ = p.Signal(syscall.SIGKILL)
	<-p.done
}

// Stop sends the signal, waits for the end, and kills what has not ended by then.
func (p *Process) Stop(signal syscall.Signal, timeout time.Duration) error {
	if err := p.Signal(signal); err != nil {
		return err
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(timeout):
		p.Kill()
		return fmt.Errorf("process %d did not end within %v of %v and was killed", p.Pid(), timeout, signal)
	}
}

func lookUp(name string) (*user.User, *syscall.Credential, error) {
	account, err := user.Lookup(name)
	if err != nil {
		return nil, nil, err
	}
	uid, err := strconv.ParseUint(account.Uid, 10, 32)
	if err != nil {
		return nil, nil, err
	}
	gid, err := strconv.ParseUint(account.Gid, 10, 32)
	if err != nil {
		return nil, nil, err
	}
	return account, &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}
