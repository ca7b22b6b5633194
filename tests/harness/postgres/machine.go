package postgres

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
)

// serverUser is whom PostgreSQL runs as where the harness runs as root, as which it refuses to run.
const serverUser = "postgres"

// ServerUser is the name of the user to run PostgreSQL as; empty: as the present one.
func ServerUser() string {
	if os.Geteuid() != 0 {
		return ""
	}
	return serverUser
}

// GiveAway makes a file the server's, where that is another user than the present one.
func GiveAway(path string) error {
	if ServerUser() == "" {
		return nil
	}
	account, err := user.Lookup(serverUser)
	if err != nil {
		return fmt.Errorf("PostgreSQL does not run as root: %w", err)
	}
	uid, err := strconv.Atoi(account.Uid)
	if err != nil {
		return err
	}
	gid, err := strconv.Atoi(account.Gid)
	if err != nil {
		return err
	}
	return os.Chown(path, uid, gid)
}

// Programs finds the directory of the server's programs, initdb and pg_basebackup among them: the given one
// or, if that is empty, the machine's.
func Programs(given string) (string, error) {
	candidates := []string{given}
	if given == "" {
		candidates, _ = filepath.Glob("/usr/lib/postgresql/*/bin")
		if path, err := exec.LookPath("postgres"); err == nil {
			candidates = append(candidates, filepath.Dir(path))
		}
	}
	for _, candidate := range candidates {
		_, makes := os.Stat(filepath.Join(candidate, "initdb"))
		_, copies := os.Stat(filepath.Join(candidate, "pg_basebackup"))
		if makes == nil && copies == nil {
			return candidate, nil
		}
	}
	return "", errors.New("no PostgreSQL server programs found: apt-get install postgresql-15")
}

// LogTail is the end of a log, for messages.
func LogTail(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	const most = 2000
	return string(text[max(0, len(text)-most):])
}
