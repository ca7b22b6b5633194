package host

import (
	"idempotencyd/tests/harness/grpcproxy"
	"idempotencyd/tests/harness/scenario"
)

// What the step "calls" judges: how many calls of the method came, and how many different ones.
func (s *session) callsValue(step scenario.Step) map[string]any {
	calls := s.proxy.Calls(step.Method)
	attempts, requests := map[string]bool{}, map[string]bool{}
	for _, call := range calls {
		if call.AttemptID != "" {
			attempts[call.AttemptID] = true
		}
		requests[string(call.Request)] = true
	}
	peers := peersOf(calls, nil)
	shared := map[string]any{}
	for _, method := range scenario.Methods {
		shared[method] = overlap(peers, peersOf(s.proxy.Calls(method), nil))
	}
	waits := peersOf(s.proxy.Calls("Begin"), func(call grpcproxy.Call) bool { return call.Waits })
	return map[string]any{
		"count": scenario.Number(len(calls)), "attempt_ids": scenario.Number(len(attempts)),
		"distinct_requests": scenario.Number(len(requests)), "connections": scenario.Number(len(peers)),
		"shares_connection_with": shared, "shares_connection_with_waits": overlap(peers, waits),
	}
}

// The connections that the calls came by, or those of them that are wanted.
func peersOf(calls []grpcproxy.Call, wanted func(grpcproxy.Call) bool) map[string]bool {
	peers := map[string]bool{}
	for _, call := range calls {
		if wanted == nil || wanted(call) {
			peers[call.Peer] = true
		}
	}
	return peers
}

func overlap(a, b map[string]bool) bool {
	for peer := range a {
		if b[peer] {
			return true
		}
	}
	return false
}
