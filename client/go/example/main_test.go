package main

import (
	"encoding/json"
	"net/http"
	"os"
	"testing"
)

func TestExample(t *testing.T) {
	host := os.Getenv("IDEMPOTENCY_SCENARIO_HOST")
	if host == "" {
		t.Skip("no service: IDEMPOTENCY_SCENARIO_HOST is not set (./dev test sets it)")
	}
	response, err := http.Get(host + "/service")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	var service struct{ Target string }
	if err := json.NewDecoder(response.Body).Decode(&service); err != nil {
		t.Fatal(err)
	}
	if err := run(service.Target, t.Output()); err != nil {
		t.Error(err)
	}
}
