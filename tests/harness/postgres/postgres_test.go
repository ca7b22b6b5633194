package postgres

import (
	"context"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
)

// One server for all tests of the package.
var shared *Server

func TestMain(m *testing.M) {
	var err error
	if shared, err = Start(context.Background(), Options{}); err != nil {
		panic(err)
	}
	status := m.Run()
	path := shared.directory.Path()
	if err := shared.Stop(); err != nil {
		panic(err)
	}
	if _, err := os.Stat(path); err == nil {
		panic(path + " is still there")
	}
	os.Exit(status)
}

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func query(t *testing.T, database, sql string) [][]string {
	t.Helper()
	rows, err := shared.Query(testContext(t), database, sql)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func TestQueryGivesRows(t *testing.T) {
	rows := query(t, superuser, "SELECT * FROM (VALUES (1, 'a'), (2, NULL)) v")
	if want := [][]string{{"1", "a"}, {"2", ""}}; !reflect.DeepEqual(rows, want) {
		t.Errorf("%q", rows)
	}
	if rows := query(t, superuser, "SELECT 1 WHERE false"); len(rows) != 0 {
		t.Errorf("%q", rows)
	}
}

func TestWrongSQLIsAFault(t *testing.T) {
	_, err := shared.Query(testContext(t), superuser, "SELECT nothing")
	if err == nil || !strings.Contains(err.Error(), "nothing") {
		t.Error(err)
	}
}

func TestADatabaseIsACopyOfItsTemplate(t *testing.T) {
	ctx := testContext(t)
	if err := shared.CreateDatabase(ctx, "pattern", ""); err != nil {
		t.Fatal(err)
	}
	query(t, "pattern", "CREATE TABLE marks AS SELECT 7 AS mark")
	if err := shared.CreateDatabase(ctx, "copy", "pattern"); err != nil {
		t.Fatal(err)
	}
	if rows := query(t, "copy", "SELECT mark FROM marks"); !reflect.DeepEqual(rows, [][]string{{"7"}}) {
		t.Errorf("%q", rows)
	}
	if err := shared.DropDatabase(ctx, "copy"); err != nil {
		t.Error(err)
	}
}

func TestAKilledServerComesBackWithWhatWasCommitted(t *testing.T) {
	ctx := testContext(t)
	address := shared.Address()
	query(t, superuser, "CREATE TABLE kept AS SELECT 1 AS one")
	for _, end := range []func(){shared.Kill, func() {}} {
		end()
		if err := shared.Restart(ctx); err != nil {
			t.Fatal(err)
		}
		if rows := query(t, superuser, "SELECT one FROM kept"); len(rows) != 1 {
			t.Errorf("%q", rows)
		}
	}
	if shared.Address() != address {
		t.Errorf("it moved from %s to %s", address, shared.Address())
	}
}

func TestThePasswordIsAsked(t *testing.T) {
	stranger := *shared
	stranger.password = "wrong"
	if _, err := stranger.Query(testContext(t), superuser, "SELECT 1"); err == nil {
		t.Error("it let somebody in without it")
	}
}
