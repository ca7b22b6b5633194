package grpcproxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
)

const (
	servicePrefix   = "/idempotency.v1.IdempotencyService/"
	pushbackTrailer = "grpc-retry-pushback-ms"
	// A call whose answer is to be lost has its effect, even if the client does not wait for it.
	effectTimeout = 60 * time.Second
)

var errClosed = status.Error(codes.Unavailable, "the proxy is closed")

// A message's bytes.
type frame []byte

// Takes messages for what they are on the wire.
type rawCodec struct{}

func (rawCodec) Marshal(message any) (mem.BufferSlice, error) {
	bytes, ok := message.(*frame)
	if !ok {
		return nil, fmt.Errorf("%T is no frame", message)
	}
	return mem.BufferSlice{mem.SliceBuffer(*bytes)}, nil
}

func (rawCodec) Unmarshal(data mem.BufferSlice, message any) error {
	bytes, ok := message.(*frame)
	if !ok {
		return fmt.Errorf("%T is no frame", message)
	}
	*bytes = data.Materialize()
	return nil
}

// Name is that of the codec which the messages are made by.
func (rawCodec) Name() string { return "proto" }

func (p *Proxy) handle(_ any, stream grpc.ServerStream) error {
	method, ok := grpc.MethodFromServerStream(stream)
	if !ok {
		return status.Error(codes.Internal, "a call without a method")
	}
	if !strings.HasPrefix(method, servicePrefix) {
		return p.handOn(method, stream)
	}
	var request frame
	if err := stream.RecvMsg(&request); err != nil {
		return err
	}
	call, fault := p.begin(stream.Context(), method, request)
	var err error
	if fault == nil {
		err = p.forwardAndAnswer(method, stream, request)
	} else {
		err = p.spoil(method, stream, call, *fault)
	}
	p.end(call, err)
	return err
}

// Forwards a call and answers as the replica does.
func (p *Proxy) forwardAndAnswer(method string, stream grpc.ServerStream, request frame) error {
	answer, header, trailer, err := p.forward(stream.Context(), method, request)
	stream.SetTrailer(passedOn(trailer))
	if err != nil {
		return err
	}
	if err := stream.SetHeader(passedOn(header)); err != nil {
		return err
	}
	return stream.SendMsg(&answer)
}

func (p *Proxy) forward(ctx context.Context, method string, request frame) (
	answer frame, header, trailer metadata.MD, err error,
) {
	incoming, _ := metadata.FromIncomingContext(ctx)
	ctx = metadata.NewOutgoingContext(ctx, passedOn(incoming))
	err = p.upstream.Invoke(ctx, method, &request, &answer, grpc.ForceCodecV2(rawCodec{}),
		grpc.Header(&header), grpc.Trailer(&trailer), grpc.MaxCallRecvMsgSize(maxMessageBytes),
		grpc.MaxCallSendMsgSize(maxMessageBytes))
	return answer, header, trailer, err
}

// Does to a call what the fault says. Returns what the call ends with.
func (p *Proxy) spoil(method string, stream grpc.ServerStream, call *Call, fault Fault) error {
	if fault.forwardsFirst() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(stream.Context()), effectTimeout)
		stop := context.AfterFunc(p.ctx, cancel)
		// The answer is lost, whatever it is.
		_, _, _, _ = p.forward(ctx, method, call.Request)
		stop()
		cancel()
	}
	switch fault.Kind {
	case Refuse:
		trailer, err := fault.refusal()
		stream.SetTrailer(trailer)
		return err
	case LoseAnswer:
		return status.Error(fault.Code, "the answer was lost")
	case Answer, AnswerAfter:
		answer := frame(fault.Answer)
		return stream.SendMsg(&answer)
	case CutAfter:
		p.cut(call)
		return status.Error(codes.Unavailable, "the connection was cut")
	default:
		return p.hang(stream)
	}
}

// Waits until the client gives up.
func (p *Proxy) hang(stream grpc.ServerStream) error {
	select {
	case <-stream.Context().Done():
		return status.FromContextError(stream.Context().Err()).Err()
	case <-p.ctx.Done():
		return errClosed
	}
}

// Hands on a call of another service, such as health or reflection, message by message.
func (p *Proxy) handOn(method string, stream grpc.ServerStream) error {
	incoming, _ := metadata.FromIncomingContext(stream.Context())
	ctx, cancel := context.WithCancel(metadata.NewOutgoingContext(stream.Context(), passedOn(incoming)))
	defer cancel()
	both := &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}
	upstream, err := p.upstream.NewStream(ctx, both, method, grpc.ForceCodecV2(rawCodec{}),
		grpc.MaxCallRecvMsgSize(maxMessageBytes))
	if err != nil {
		return err
	}
	go func() {
		for {
			var message frame
			if err := stream.RecvMsg(&message); err != nil {
				if errors.Is(err, io.EOF) {
					_ = upstream.CloseSend()
				} else {
					cancel()
				}
				return
			}
			if upstream.SendMsg(&message) != nil {
				// Its status comes by RecvMsg, below.
				return
			}
		}
	}()
	for {
		var message frame
		err := upstream.RecvMsg(&message)
		if errors.Is(err, io.EOF) {
			stream.SetTrailer(passedOn(upstream.Trailer()))
			return nil
		}
		if err != nil {
			stream.SetTrailer(passedOn(upstream.Trailer()))
			return err
		}
		if err := stream.SendMsg(&message); err != nil {
			return err
		}
	}
}

// The metadata without what each of the two connections says for itself.
func passedOn(given metadata.MD) metadata.MD {
	passed := metadata.MD{}
	for name, values := range given {
		ownOfConnection := strings.HasPrefix(name, ":") || name == "content-type" || name == "user-agent" ||
			name == "te" || (strings.HasPrefix(name, "grpc-") && name != pushbackTrailer)
		if !ownOfConnection {
			passed[name] = values
		}
	}
	return passed
}

// The status with one more detail.
func withDetails(from *status.Status, detail protoadapt.MessageV1) *status.Status {
	with, err := from.WithDetails(detail)
	if err != nil {
		// Only a detail that cannot be encoded, or code OK, and both are excluded by Fault.Validate.
		return from
	}
	return with
}
