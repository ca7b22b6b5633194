//go:build !linux

package idempotency

func bootTime() instant { return monotonicTime() }
