// Package scratch gives temporary directories that do not pile up when their owner is killed: each
// is locked while its owner lives, and those that nobody holds any more are removed by the next one.
package scratch

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

const (
	lockName = "lock"
	// A directory is older than this before it is taken for left over: the lock comes a moment after it.
	settled = time.Minute
)

// Directory is a temporary directory of this process.
type Directory struct {
	path string
	lock *os.File
}

// New makes a directory whose name begins with prefix, and removes those of dead owners.
func New(prefix string) (*Directory, error) {
	removeLeftOver(prefix)
	path, err := os.MkdirTemp("", prefix+"-")
	if err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(path, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil {
		err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(path))
	}
	return &Directory{path: path, lock: lock}, nil
}

// Path is where it is.
func (d *Directory) Path() string { return d.path }

// File is the path of a file in it.
func (d *Directory) File(name string) string { return filepath.Join(d.path, name) }

// Remove removes it and what is in it.
func (d *Directory) Remove() error {
	return errors.Join(os.RemoveAll(d.path), d.lock.Close())
}

func removeLeftOver(prefix string) {
	paths, err := filepath.Glob(filepath.Join(os.TempDir(), prefix+"-*"))
	if err != nil {
		return
	}
	for _, path := range paths {
		info, err := os.Lstat(path)
		if err != nil || !info.IsDir() || time.Since(info.ModTime()) < settled {
			continue
		}
		lock, err := os.OpenFile(filepath.Join(path, lockName), os.O_RDWR, 0)
		if err != nil {
			continue
		}
		if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			// Left over as before if it fails; it holds nothing that anybody needs.
			_ = os.RemoveAll(path)
		}
		_ = lock.Close()
	}
}
