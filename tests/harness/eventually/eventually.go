// Package eventually waits in tests for what becomes true by itself.
package eventually

import (
	"testing"
	"time"
)

// Far more than anything in the tests takes: what is not true by then never will be.
const patience = 30 * time.Second

// True fails the test unless the condition becomes true.
func True(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
