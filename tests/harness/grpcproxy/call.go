package grpcproxy

import (
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
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
	// Ended is true once the call was answered, lost, or given up by the client. Then Code is how, and
	// Reason what an ErrorInfo said, if there was one.
	Ended  bool
	Code   codes.Code
	Reason string
}

// The reason in the status that a call ended with.
func reasonOf(err error) string {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			return info.GetReason()
		}
	}
	return ""
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
