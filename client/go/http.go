package idempotency

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// HTTPResponse is a result or an error as an HTTP answer.
type HTTPResponse struct {
	// Status is 200 to 599.
	Status int
	// Headers are in the order in which they are to be sent; they may repeat.
	Headers []Header
	// Body is empty where there is none.
	Body []byte
}

// Write sends it. It fails if the connection does, and for a body that HTTP does
// not allow beside the status.
func (r HTTPResponse) Write(w http.ResponseWriter) error {
	w.Header()["Content-Type"] = nil // or net/http would make one up
	for _, header := range r.Headers {
		w.Header().Add(header.Name, header.Value)
	}
	w.WriteHeader(r.Status)
	if len(r.Body) == 0 {
		return nil
	}
	_, err := w.Write(r.Body)
	return err
}

// HTTPAnswer makes an HTTP answer of what RunOnce returned: the recorded one, byte
// for byte, with Idempotent-Replayed: true if it was replayed; 409 with
// Retry-After while somebody else is at it; 422 for a key used for another request
// and for a final failure without an outcome; 503 where nothing was done; 502 where
// nobody knows; the other errors by their kinds. Nothing internal goes out: codes
// and messages are constants, except those of a final failure, which are the
// application's own.
func HTTPAnswer(result Result, err error) HTTPResponse {
	if err != nil {
		return errorAnswer(asError(err))
	}
	switch r := result.(type) {
	case *Completed:
		return outcomeAnswer(&r.Outcome, false)
	case *Unprotected:
		if r.Work.outcome != nil {
			return outcomeAnswer(r.Work.outcome, false)
		}
		return failureAnswer(r.Work.failure, false)
	case *Failed:
		return failureAnswer(&r.Failure, false)
	case *Replayed:
		if r.Outcome != nil {
			return outcomeAnswer(r.Outcome, true)
		}
		return failureAnswer(r.Failure, true)
	case *InProgress:
		return wordsAnswer(http.StatusConflict, "IN_PROGRESS", httpMessages["IN_PROGRESS"], &r.RetryAfter)
	}
	return errorAnswer(newError(KindInternal, "no result"))
}

const (
	statusClientLeft  = 499
	replayedHeader    = "Idempotent-Replayed"
	bodyOmittedHeader = "Idempotent-Body-Omitted"
)

func outcomeAnswer(o *Outcome, replayed bool) HTTPResponse {
	if o.StatusCode < 200 || o.StatusCode > 599 {
		return wordsAnswer(http.StatusInternalServerError, "BAD_STATUS_CODE", httpMessages["BAD_STATUS_CODE"],
			nil).marked(replayed)
	}
	answer := HTTPResponse{Status: int(o.StatusCode), Headers: slices.Clone(o.Headers), Body: o.Body}
	named := slices.ContainsFunc(o.Headers, func(h Header) bool { return strings.EqualFold(h.Name, "Content-Type") })
	if o.ContentType != "" && !named {
		answer.Headers = append(answer.Headers, Header{"Content-Type", o.ContentType})
	}
	answer = answer.marked(replayed)
	if o.BodyOmitted {
		answer.Headers, answer.Body = append(answer.Headers, Header{bodyOmittedHeader, "true"}), nil
	}
	return answer
}

func failureAnswer(f *Failure, replayed bool) HTTPResponse {
	switch {
	case f == nil || f.Disposition == UnknownDisposition:
		return wordsAnswer(http.StatusBadGateway, "OUTCOME_UNKNOWN", httpMessages["OUTCOME_UNKNOWN"], nil)
	case f.Disposition == NotAppliedDisposition:
		return wordsAnswer(http.StatusServiceUnavailable, "NOT_APPLIED", httpMessages["NOT_APPLIED"], new(time.Duration))
	case f.Outcome != nil:
		return outcomeAnswer(f.Outcome, replayed)
	}
	return wordsAnswer(http.StatusUnprocessableEntity, f.Code, f.Message, nil).marked(replayed)
}

func (r HTTPResponse) marked(replayed bool) HTTPResponse {
	if replayed {
		r.Headers = append(r.Headers, Header{replayedHeader, "true"})
	}
	return r
}

var httpStatus = map[Kind]int{
	KindInvalidField:       http.StatusBadRequest,
	KindRequestTooLarge:    http.StatusRequestEntityTooLarge,
	KindKeyReused:          http.StatusUnprocessableEntity,
	KindLeaseLost:          http.StatusConflict,
	KindOutcomeConflict:    http.StatusConflict,
	KindNeedsResolution:    http.StatusConflict,
	KindRecordNotFound:     http.StatusNotFound,
	KindRateLimited:        http.StatusTooManyRequests,
	KindUnavailable:        http.StatusServiceUnavailable,
	KindDeadlineExceeded:   http.StatusGatewayTimeout,
	KindCancelled:          statusClientLeft,
	KindOutcomeNotRecorded: http.StatusInternalServerError,
	// The service's own set-up, not the payer's fault.
	KindUnauthenticated:  http.StatusInternalServerError,
	KindPermissionDenied: http.StatusInternalServerError,
	KindInternal:         http.StatusInternalServerError,
}

func errorAnswer(err *Error) HTTPResponse {
	code := httpCode(err.Kind)
	status, known := httpStatus[err.Kind]
	if !known || err.Work != nil {
		status = http.StatusInternalServerError
	}
	if err.Kind == KindOutcomeNotRecorded && err.StillRecording {
		status = http.StatusGatewayTimeout
	}
	var retryAfter *time.Duration
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		retryAfter = &err.RetryAfter
	}
	return wordsAnswer(status, code, httpMessages[code], retryAfter)
}

// httpCode makes KEY_REUSED of KeyReused.
func httpCode(kind Kind) string {
	var code strings.Builder
	for i, c := range string(kind) {
		if i > 0 && c >= 'A' && c <= 'Z' {
			code.WriteByte('_')
		}
		code.WriteRune(c)
	}
	return strings.ToUpper(code.String())
}

func wordsAnswer(status int, code, message string, retryAfter *time.Duration) HTTPResponse {
	answer := HTTPResponse{
		Status:  status,
		Headers: []Header{{"Content-Type", "application/json"}},
		Body: fmt.Appendf(nil, `{"status":%d,"code":%s,"message":%s}`, status, jsonText(code),
			jsonText(message)),
	}
	if retryAfter != nil {
		seconds := int64(*retryAfter / time.Second)
		if *retryAfter%time.Second > 0 {
			seconds++
		}
		answer.Headers = append(answer.Headers, Header{"Retry-After", strconv.FormatInt(max(1, seconds), 10)})
	}
	return answer
}

// jsonText escapes as RFC 8785 does, which encoding/json does not: it also
// escapes what HTML would trip over.
func jsonText(text string) string {
	short := map[rune]string{'"': `\"`, '\\': `\\`, '\b': `\b`, '\f': `\f`, '\n': `\n`, '\r': `\r`, '\t': `\t`}
	var escaped strings.Builder
	escaped.WriteByte('"')
	for _, c := range text {
		switch name, ok := short[c]; {
		case ok:
			escaped.WriteString(name)
		case c < 0x20:
			fmt.Fprintf(&escaped, `\u%04x`, c)
		default:
			escaped.WriteRune(c)
		}
	}
	escaped.WriteByte('"')
	return escaped.String()
}

// httpMessages are for the payer; nothing internal goes out.
var httpMessages = map[string]string{
	"BAD_STATUS_CODE":      "The recorded status code is none that HTTP can carry.",
	"NOT_APPLIED":          "Nothing was done. Try again with the same key.",
	"OUTCOME_UNKNOWN":      "Whether this was done is not known. Try again with the same key.",
	"IN_PROGRESS":          "This is being done. Try again with the same key.",
	"INVALID_FIELD":        "The request is invalid.",
	"REQUEST_TOO_LARGE":    "The request is too large.",
	"KEY_REUSED":           "The key was used for another request.",
	"LEASE_LOST":           "This came too late. Try again with the same key.",
	"OUTCOME_CONFLICT":     "Another outcome is recorded.",
	"NEEDS_RESOLUTION":     "Whether this was done is not known, and has to be found out first.",
	"RECORD_NOT_FOUND":     "There is no record of this key.",
	"RATE_LIMITED":         "Too many requests. Try again with the same key.",
	"UNAVAILABLE":          "Nothing was done. Try again with the same key.",
	"DEADLINE_EXCEEDED":    "There was no answer in time. Try again with the same key.",
	"CANCELLED":            "The caller has left.",
	"OUTCOME_NOT_RECORDED": "This ended, and its outcome is not recorded. Try again with the same key.",
	"UNAUTHENTICATED":      "The service is not set up right.",
	"PERMISSION_DENIED":    "The service is not set up right.",
	"INTERNAL":             "The service failed. Try again with the same key.",
}
