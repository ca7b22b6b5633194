package scratch

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func TestRemoveRemovesWhatIsInIt(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	directory, err := New("harness-test")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(directory.File("file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := directory.Remove(); err != nil || exists(directory.Path()) {
		t.Error(err)
	}
}

func TestWhatDeadOwnersLeftIsRemoved(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	long := time.Now().Add(-time.Hour)
	leave := func(name string) string {
		path := filepath.Join(os.TempDir(), name)
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(path, lockName), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, long, long); err != nil {
			t.Fatal(err)
		}
		return path
	}
	dead, another := leave("harness-test-1"), leave("another-1")
	living, err := New("harness-test")
	if err != nil {
		t.Fatal(err)
	}
	if exists(dead) || !exists(another) {
		t.Errorf("dead: %v, another: %v", exists(dead), exists(another))
	}
	if err := os.Chtimes(living.Path(), long, long); err != nil {
		t.Fatal(err)
	}
	if _, err := New("harness-test"); err != nil {
		t.Fatal(err)
	}
	if !exists(living.Path()) {
		t.Error("the directory of a living owner was removed")
	}
}
