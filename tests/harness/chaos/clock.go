package chaos

import (
	"context"
	"fmt"
	"time"

	"idempotencyd/tests/harness/replication"
)

// The service's statements read the time only as unqualified clock_timestamp(). In a world with a clock its sessions find a
// function of that name in a schema before pg_catalog, which adds what one row says. VOLATILE, so that each call looks anew.
const installClockSQL = `
CREATE SCHEMA test_clock;
CREATE TABLE test_clock.reading (ahead interval NOT NULL);
INSERT INTO test_clock.reading VALUES ('0');
CREATE FUNCTION test_clock.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE
AS 'SELECT pg_catalog.clock_timestamp() + r.ahead FROM test_clock.reading AS r';`

func installClock(ctx context.Context, node *replication.Node) error {
	return execIn(ctx, node, installClockSQL)
}

// setClock sets the database's clock that far ahead of the real one, or behind it. The commit waits for no standby.
func setClock(ctx context.Context, node *replication.Node, ahead time.Duration) error {
	return execIn(ctx, node, fmt.Sprintf("UPDATE test_clock.reading SET ahead = interval '1 us' * %d", ahead.Microseconds()))
}

// execIn runs SQL in the service's database.
func execIn(ctx context.Context, node *replication.Node, sql string) error {
	connection, err := node.ConnectTo(ctx, databaseName, "")
	if err != nil {
		return err
	}
	defer connection.Close(ctx)
	_, err = connection.PgConn().Exec(ctx, sql).ReadAll()
	return err
}
