package idempotency_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"idempotencyd/client/go"
)

func TestRandomRequestID(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 1000 {
		id := idempotency.RandomRequestID()
		if len(id) != 36 || id[14] != '4' || !strings.ContainsRune("89ab", rune(id[19])) || seen[id] {
			t.Fatalf("got %q", id)
		}
		seen[id] = true
	}
}

// Different kinds and parts never make the same key, however they are cut.
func TestBusinessKeysAreUnambiguous(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	alphabet := []string{":", "%", "~", "%3A", "a", "A", ".", "é", "\x00", " ", strings.Repeat("x", 70)}
	made := map[string]string{}
	for range 20000 {
		kind := []string{"pay", "pay.", "p"}[random.IntN(3)]
		parts := make([]string, 1+random.IntN(5))
		for i := range parts {
			for range 1 + random.IntN(4) {
				parts[i] += alphabet[random.IntN(len(alphabet))]
			}
		}
		key, err := idempotency.BusinessKey(kind, parts...)
		if err != nil || len(key) > 255 {
			t.Fatalf("%q, %q: %q, %v", kind, parts, key, err)
		}
		if strings.ContainsFunc(key, func(c rune) bool { return c < 0x20 || c > 0x7E }) {
			t.Fatalf("%q is no printable ASCII", key)
		}
		source := fmt.Sprintf("%q %q", kind, parts)
		if other, ok := made[key]; ok && other != source {
			t.Fatalf("%s and %s make the key %q", source, other, key)
		}
		made[key] = source
	}
}

func TestBusinessKeyRefusesWhatIsNoUTF8(t *testing.T) {
	t.Parallel()
	_, err := idempotency.NewBusinessKey("acme", "pay", "ok", "\xff")
	wantInvalidField(t, err, "parts[1]")
}

func TestNewBusinessKeyIsKeptFor30Days(t *testing.T) {
	t.Parallel()
	key, err := idempotency.NewBusinessKey("acme", "pay", "order-7", "card")
	if want := (idempotency.Key{MerchantID: "acme", IdempotencyKey: "pay:order-7:card", TTL: 720 * time.Hour}); err != nil || key != want {
		t.Errorf("got %+v, %v", key, err)
	}
}

func TestDigits(t *testing.T) {
	t.Parallel()
	for n, ok := range map[int]bool{-16: false, 15: false, 16: true, 64: true, 65: false} {
		key, err := idempotency.DownstreamKeyFor("6ba7b810-9dad-51d1-80b4-00c04fd430c8", "bank", idempotency.Digits(n))
		if ok != (err == nil) || ok && (len(key) != n || key[0] == '0') {
			t.Errorf("%d digits: got %q, %v", n, key, err)
		}
	}
}

func TestErrorsAreFoundByKindAndNotByWhatFnReturned(t *testing.T) {
	t.Parallel()
	inner := &idempotency.Error{Kind: idempotency.KindUnavailable}
	err := fmt.Errorf("paying: %w", &idempotency.Error{Kind: idempotency.KindLeaseLost, Reason: "LEASE_LOST", Message: "m", WorkErr: inner})
	if !errors.Is(err, idempotency.ErrLeaseLost) || errors.Is(err, idempotency.ErrUnavailable) || errors.Is(err, context.Canceled) {
		t.Errorf("%v is not what it is", err)
	}
	if got := err.Error(); got != "paying: idempotency: LeaseLost (LEASE_LOST): m" {
		t.Errorf("got %q", got)
	}
}

func TestHTTPAnswerIsWritten(t *testing.T) {
	t.Parallel()
	recorder := httptest.NewRecorder()
	answer := idempotency.HTTPAnswer(&idempotency.Completed{Outcome: idempotency.Outcome{StatusCode: 201,
		Headers: []idempotency.Header{{Name: "Set-Cookie", Value: "a=1"}, {Name: "Set-Cookie", Value: "b=2"}}, Body: []byte("<html>")}}, nil)
	if err := answer.Write(recorder); err != nil {
		t.Fatal(err)
	}
	got := recorder.Result()
	if got.StatusCode != 201 || len(got.Header["Set-Cookie"]) != 2 || recorder.Body.String() != "<html>" ||
		got.Header.Get("Content-Type") != "" {
		t.Errorf("got %+v", got)
	}
}

func TestHTTPAnswerHasNoBodyThatWasOmitted(t *testing.T) {
	t.Parallel()
	answer := idempotency.HTTPAnswer(&idempotency.Replayed{Outcome: &idempotency.Outcome{StatusCode: 200, BodyOmitted: true,
		Body: []byte("half of it")}}, nil)
	if answer.Status != 200 || answer.Body != nil {
		t.Errorf("got %+v", answer)
	}
}

func TestHTTPAnswerOfWhatIsNoError(t *testing.T) {
	t.Parallel()
	for _, answer := range []idempotency.HTTPResponse{
		idempotency.HTTPAnswer(nil, errors.New("secret")), idempotency.HTTPAnswer(nil, nil)} {
		if answer.Status != 500 || strings.Contains(string(answer.Body), "secret") {
			t.Errorf("got %d %s", answer.Status, answer.Body)
		}
	}
	wrapped := fmt.Errorf("paying: %w", &idempotency.Error{Kind: idempotency.KindKeyReused})
	if answer := idempotency.HTTPAnswer(nil, wrapped); answer.Status != 422 {
		t.Errorf("got %d", answer.Status)
	}
}
