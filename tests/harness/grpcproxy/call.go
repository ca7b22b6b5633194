package grpcproxy

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	idempotencyv1 "idempotencyd/client/go/idempotency/v1"
)

// Call is one call that came to the proxy.
type Call struct {
	// Method goes by its short name: "Begin".
	Method string
	// Request is the message as it came.
	Request []byte
	// Peer is the address that the client's connection came from: one a connection.
	Peer string
	// AttemptID is the request's, empty if it has none.
	AttemptID string
	// Waits is true for a Begin that has a wait_timeout.
	Waits bool
	// Ended is true once the call was answered, lost, or given up by the client; Code is how, then.
	Ended bool
	Code  codes.Code
}

// Takes from the request what tells calls apart. What cannot be parsed has nothing of it.
func (c *Call) readRequest() {
	switch c.Method {
	case "Begin":
		var request idempotencyv1.BeginRequest
		if proto.Unmarshal(c.Request, &request) == nil {
			c.AttemptID = request.GetAttemptId()
			c.Waits = request.GetWaitTimeout().AsDuration() > 0
		}
	case "Complete":
		var request idempotencyv1.CompleteRequest
		if proto.Unmarshal(c.Request, &request) == nil {
			c.AttemptID = request.GetAttemptId()
		}
	case "Fail":
		var request idempotencyv1.FailRequest
		if proto.Unmarshal(c.Request, &request) == nil {
			c.AttemptID = request.GetAttemptId()
		}
	case "Renew":
		var request idempotencyv1.RenewRequest
		if proto.Unmarshal(c.Request, &request) == nil {
			c.AttemptID = request.GetAttemptId()
		}
	}
}
