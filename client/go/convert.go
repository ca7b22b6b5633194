package idempotency

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	idempotencyv1 "idempotencyd/client/go/idempotency/v1"
)

const (
	maxCodeBytes    = 64
	maxMessageBytes = 1024
)

// cleanText cuts text to at most maxBytes of whole characters; bytes that are not
// UTF-8 become question marks.
func cleanText(text string, maxBytes int) string {
	if len(text) <= maxBytes && utf8.ValidString(text) {
		return text
	}
	var clean strings.Builder
	for len(text) > 0 {
		character, size := utf8.DecodeRuneInString(text)
		if clean.Len()+size > maxBytes {
			break
		}
		if character == utf8.RuneError && size == 1 {
			clean.WriteByte('?')
		} else {
			clean.WriteString(text[:size])
		}
		text = text[size:]
	}
	return clean.String()
}

// checkBegin names the first thing that is wrong with a call and that the client
// can see. What a message cannot carry is refused here, because the server never
// sees it; the bounds are the server's to judge.
func checkBegin(key Key, request Request, onLeaseExpiry OnLeaseExpiry, o *runOptions) *Error {
	if err := checkKey(key); err != nil {
		return err
	}
	if !utf8.ValidString(request.Operation) {
		return invalidField("operation", "must be printable ASCII")
	}
	switch content := contentOf(request).(type) {
	case Payload:
		if !utf8.ValidString(content.ContentType) {
			return invalidField("payload.content_type", "must be printable ASCII")
		}
	case Fingerprint:
	default:
		return invalidField("request", "is required: a Payload or a Fingerprint")
	}
	if onLeaseExpiry != TakeOver && onLeaseExpiry != Hold {
		return invalidField("on_lease_expiry", "must be TakeOver or Hold; there is no default")
	}
	return o.check(onLeaseExpiry)
}

// contentOf also takes pointers, which satisfy the interface as well.
func contentOf(request Request) Content {
	switch content := request.Content.(type) {
	case *Payload:
		if content != nil {
			return *content
		}
		return nil
	case *Fingerprint:
		if content != nil {
			return *content
		}
		return nil
	}
	return request.Content
}

func checkKey(key Key) *Error {
	for _, part := range []struct{ field, value string }{
		{"merchant_id", key.MerchantID}, {"idempotency_key", key.IdempotencyKey}} {
		if part.value == "" {
			return invalidField(part.field, "must not be empty")
		}
		if !utf8.ValidString(part.value) {
			return invalidField(part.field, "must be printable ASCII")
		}
	}
	return nil
}

func (o *runOptions) check(onLeaseExpiry OnLeaseExpiry) *Error {
	for name, value := range o.labels {
		if !utf8.ValidString(name) || !utf8.ValidString(value) {
			return invalidField(fmt.Sprintf("labels[%q]", strings.ToValidUTF8(name, "?")), "must be UTF-8")
		}
	}
	switch {
	case o.ttl != nil && *o.ttl < 0:
		return invalidField("ttl", "must not be negative")
	case o.leaseDuration != nil && *o.leaseDuration < 0:
		return invalidField("lease_duration", "must not be negative")
	case o.waitTimeout < 0:
		return invalidField("wait_timeout", "must not be negative")
	case o.maxDuration <= 0:
		return invalidField("max_duration", "must be more than 0")
	case o.startTimeout <= 0:
		return invalidField("start_timeout", "must be more than 0")
	case o.onUnavailable != Fail && o.onUnavailable != RunUnprotected:
		return invalidField("on_unavailable", "must be Fail or RunUnprotected")
	case o.onUnavailable == RunUnprotected && onLeaseExpiry == Hold:
		return invalidField("on_unavailable", "RunUnprotected contradicts Hold: nobody would hold the work")
	}
	return nil
}

// checkOutcome names what a message cannot carry.
func checkOutcome(path string, o *Outcome) *Error {
	if o == nil {
		return nil
	}
	if !utf8.ValidString(o.ContentType) {
		return invalidField(path+".content_type", "must be printable ASCII")
	}
	if !utf8.ValidString(o.ResponseID) {
		return invalidField(path+".response_id", "must be printable ASCII")
	}
	for i, header := range o.Headers {
		if !utf8.ValidString(header.Name) {
			return invalidField(fmt.Sprintf("%s.headers[%d].name", path, i), "must be token characters")
		}
	}
	return nil
}

func beginRequest(key Key, request Request, onLeaseExpiry OnLeaseExpiry, o *runOptions,
	attemptID string) *idempotencyv1.BeginRequest {
	begin := &idempotencyv1.BeginRequest{
		MerchantId:     key.MerchantID,
		IdempotencyKey: key.IdempotencyKey,
		Operation:      request.Operation,
		AttemptId:      attemptID,
		OnLeaseExpiry:  idempotencyv1.LeaseExpiryAction_LEASE_EXPIRY_ACTION_TAKE_OVER,
		Labels:         maps.Clone(o.labels),
	}
	switch content := contentOf(request).(type) {
	case Payload:
		begin.Request = &idempotencyv1.BeginRequest_Payload{
			Payload: &idempotencyv1.Payload{Data: content.Data, ContentType: content.ContentType}}
	case Fingerprint:
		begin.Request = &idempotencyv1.BeginRequest_Fingerprint{Fingerprint: content.SHA256}
		begin.FingerprintScheme = content.Scheme
	}
	if onLeaseExpiry == Hold {
		begin.OnLeaseExpiry = idempotencyv1.LeaseExpiryAction_LEASE_EXPIRY_ACTION_HOLD
	}
	if o.ttl != nil {
		begin.Ttl = durationpb.New(*o.ttl)
	}
	if o.leaseDuration != nil {
		begin.LeaseDuration = durationpb.New(*o.leaseDuration)
	}
	return begin
}

func outcomeToProto(o *Outcome) *idempotencyv1.Outcome {
	if o == nil {
		return nil
	}
	message := &idempotencyv1.Outcome{
		StatusCode:  o.StatusCode,
		ContentType: o.ContentType,
		Body:        o.Body,
		ResponseId:  o.ResponseID,
		BodyOmitted: o.BodyOmitted,
	}
	for _, header := range o.Headers {
		message.Headers = append(message.Headers,
			&idempotencyv1.Header{Name: header.Name, Value: []byte(header.Value)})
	}
	// An outcome that came from a Lookup has both beside its body; recorded they
	// are refused there.
	if o.BodyOmitted {
		message.BodySize, message.BodySha256 = o.BodySize, o.BodySHA256
	}
	return message
}

// withoutBody returns o by its body's size and digest; nil if it has no body.
func withoutBody(o *Outcome) *Outcome {
	if o == nil || o.Body == nil {
		return nil
	}
	omitted := *o
	size, digest := int64(len(o.Body)), sha256.Sum256(o.Body)
	omitted.Body, omitted.BodyOmitted = nil, true
	omitted.BodySize, omitted.BodySHA256 = &size, digest[:]
	return &omitted
}

func outcomeFromProto(message *idempotencyv1.Outcome) *Outcome {
	if message == nil {
		return nil
	}
	o := &Outcome{
		StatusCode:  message.StatusCode,
		ContentType: message.ContentType,
		Body:        message.Body,
		ResponseID:  message.ResponseId,
		BodyOmitted: message.BodyOmitted,
		BodySize:    message.BodySize,
		BodySHA256:  message.BodySha256,
	}
	for _, header := range message.Headers {
		o.Headers = append(o.Headers, Header{header.GetName(), string(header.GetValue())})
	}
	return o
}

var dispositions = map[Disposition]idempotencyv1.FailureDisposition{
	UnknownDisposition:    idempotencyv1.FailureDisposition_FAILURE_DISPOSITION_UNKNOWN,
	NotAppliedDisposition: idempotencyv1.FailureDisposition_FAILURE_DISPOSITION_NOT_APPLIED,
	FinalDisposition:      idempotencyv1.FailureDisposition_FAILURE_DISPOSITION_FINAL,
}

func failureToProto(f *Failure) *idempotencyv1.Failure {
	return &idempotencyv1.Failure{
		Disposition: dispositions[f.Disposition],
		Code:        f.Code,
		Message:     f.Message,
		Outcome:     outcomeToProto(f.Outcome),
	}
}

func failureFromProto(message *idempotencyv1.Failure) *Failure {
	if message == nil {
		return nil
	}
	f := &Failure{Code: message.Code, Message: message.Message, Outcome: outcomeFromProto(message.Outcome)}
	for disposition, number := range dispositions {
		if number == message.Disposition {
			f.Disposition = disposition
		}
	}
	return f
}

func previousFromProto(message *idempotencyv1.PreviousAttempt) *PreviousAttempt {
	if message == nil {
		return nil
	}
	return &PreviousAttempt{
		AttemptNumber:   message.AttemptNumber,
		StartTime:       timeOf(message.StartTime),
		LeaseExpireTime: timeOf(message.LeaseExpireTime),
		Failure:         failureFromProto(message.Failure),
	}
}

// expiryFromProto takes what this client does not know for the strict one.
func expiryFromProto(action idempotencyv1.LeaseExpiryAction) OnLeaseExpiry {
	if action == idempotencyv1.LeaseExpiryAction_LEASE_EXPIRY_ACTION_TAKE_OVER {
		return TakeOver
	}
	return Hold
}

// uuidLength is that of a downstream key as the service writes it.
const uuidLength = 36

// wholeStart is whether the answer has all that fn and its record rely on. Without
// a downstream key the partner would have no protection.
func wholeStart(response *idempotencyv1.BeginResponse, attemptID string) bool {
	started := response.GetStarted()
	return started.GetAttemptId() == attemptID && started.GetLeaseRemaining() != nil && response.RecordId != "" &&
		started.GetAttemptNumber() >= 1 && len(started.GetDownstreamKey()) == uuidLength
}

func attemptFromProto(response *idempotencyv1.BeginResponse) *Attempt {
	started := response.GetStarted()
	return &Attempt{
		RecordID:        response.RecordId,
		AttemptNumber:   started.AttemptNumber,
		FencingToken:    started.FencingToken,
		DownstreamKey:   started.DownstreamKey,
		UnknownAttempts: started.UnknownAttempts,
		PreviousAttempt: previousFromProto(started.PreviousAttempt),
		Repeated:        started.Repeated,
		OnLeaseExpiry:   expiryFromProto(response.OnLeaseExpiry),
	}
}

// replayedFromProto returns nil if it is no whole replay.
func replayedFromProto(response *idempotencyv1.BeginResponse) *Replayed {
	replay := response.GetReplay()
	if replay.GetOutcome() == nil && replay.GetFailure() == nil {
		return nil
	}
	return &Replayed{
		Outcome:       outcomeFromProto(replay.GetOutcome()),
		Failure:       failureFromProto(replay.GetFailure()),
		RecordID:      response.RecordId,
		AttemptNumber: replay.AttemptNumber,
		StartTime:     timeOf(replay.StartTime),
		FinishTime:    timeOf(replay.FinishTime),
	}
}

func inProgressFromProto(response *idempotencyv1.BeginResponse) *InProgress {
	message := response.GetInProgress()
	return &InProgress{
		RetryAfter:     max(0, message.RetryAfter.AsDuration()),
		LeaseRemaining: max(0, message.LeaseRemaining.AsDuration()),
		RecordID:       response.RecordId,
		AttemptNumber:  message.AttemptNumber,
		StartTime:      timeOf(message.StartTime),
	}
}

func recordFromProto(response *idempotencyv1.LookupResponse) *Record {
	state := strings.TrimPrefix(response.State.String(), "RECORD_STATE_")
	return &Record{
		RecordID:        response.RecordId,
		Operation:       response.Operation,
		State:           RecordState(state),
		Expired:         response.Expired,
		CreateTime:      timeOf(response.CreateTime),
		StartTime:       timeOf(response.StartTime),
		FinishTime:      timeOf(response.FinishTime),
		ExpireTime:      timeOf(response.ExpireTime),
		OnLeaseExpiry:   expiryFromProto(response.OnLeaseExpiry),
		AttemptNumber:   response.AttemptNumber,
		UnknownAttempts: response.UnknownAttempts,
		FencingToken:    response.FencingToken,
		DownstreamKey:   response.DownstreamKey,
		Labels:          response.Labels,
		Outcome:         outcomeFromProto(response.Outcome),
		Failure:         failureFromProto(response.Failure),
		PreviousAttempt: previousFromProto(response.PreviousAttempt),
	}
}

// timeOf is zero for what is absent; AsTime would be 1970.
func timeOf(message *timestamppb.Timestamp) time.Time {
	if message == nil {
		return time.Time{}
	}
	return message.AsTime()
}
