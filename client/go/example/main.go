// Example is a tiny payment service with a fake partner that takes the money and
// then does not answer.
//
//	./dev run                                       # the service, in one terminal
//	cd client/go && go run ./example localhost:50051  # in another
//
// It pays one order over HTTP three times with one key, as a payer does who lost
// the answers. What happens:
//
//	POST 1   the partner's time-out says nothing about the money: 502, unknown
//	POST 2   is told that an attempt ended unknown, asks the partner by the
//	         downstream key, learns that the money moved, and records that: 201,
//	         no second transfer
//	POST 3   gets the recorded answer, byte for byte, without the partner
//
// A fourth, with another amount under the same key, is refused: 422. The exit code
// is 0 if just that happened and the money moved once.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc/credentials/insecure"

	"idempotencyd/client/go"
)

// partner is the bank at the other end. It remembers transfers by the key that
// comes with them.
type partner struct {
	mu        sync.Mutex // guards what follows
	transfers map[string]string
	moved     int
}

var errNoAnswer = errors.New("the partner did not answer in time")

// transfer takes the money, once for each downstream key; the first answer is
// lost.
func (p *partner) transfer(ctx context.Context, downstreamKey string, amount int) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if id, ok := p.transfers[downstreamKey]; ok {
		return id, ctx.Err()
	}
	p.moved += amount
	id := fmt.Sprint("tr-", len(p.transfers)+1)
	p.transfers[downstreamKey] = id
	return id, errNoAnswer
}

// find tells whether a transfer with that key is known.
func (p *partner) find(downstreamKey string) (string, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	id, ok := p.transfers[downstreamKey]
	return id, ok
}

// payments is the service that the payer sees.
type payments struct {
	runner  idempotency.Runner
	partner *partner
}

// ServeHTTP is POST /payments.
func (s payments) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	if err != nil {
		http.Error(w, "the body cannot be read", http.StatusBadRequest)
		return
	}
	result, err := s.runner.RunOnce(r.Context(),
		idempotency.Key{MerchantID: "shop-1", IdempotencyKey: r.Header.Get("Idempotency-Key")},
		idempotency.Request{
			Operation: "POST /payments",
			Content:   idempotency.Payload{Data: body, ContentType: r.Header.Get("Content-Type")},
		},
		idempotency.TakeOver, s.pay)
	if err != nil {
		log.Print(err) // the payer gets the kind and constant words
	}
	if err := idempotency.HTTPAnswer(result, err).Write(w); err != nil {
		log.Print(err)
	}
}

func (s payments) pay(ctx context.Context, attempt *idempotency.Attempt) (idempotency.WorkResult, error) {
	if attempt.UnknownAttempts > 0 { // an earlier attempt may have paid: ask first
		if id, ok := s.partner.find(attempt.DownstreamKey); ok {
			return paid(id), nil
		}
	}
	id, err := s.partner.transfer(ctx, attempt.DownstreamKey, 50)
	if err != nil {
		return idempotency.WorkResult{}, err // nobody knows: recorded as unknown
	}
	return paid(id), nil
}

func paid(transfer string) idempotency.WorkResult {
	return idempotency.Complete(idempotency.Outcome{
		StatusCode:  http.StatusCreated,
		Headers:     []idempotency.Header{{Name: "Location", Value: "/transfers/" + transfer}},
		ContentType: "application/json",
		Body:        fmt.Appendf(nil, `{"transfer":%q}`, transfer),
		ResponseID:  transfer,
	})
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "Usage: example HOST:PORT")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run pays one order four times and fails unless the money moved once.
func run(target string, out io.Writer) error {
	client, err := idempotency.New(target, idempotency.ClientOptions{
		Credentials: insecure.NewCredentials(), // the service of ./dev run
		Hooks: idempotency.Hooks{
			OnOutcomeNotRecorded: func(key idempotency.Key, _ idempotency.WorkResult, err *idempotency.Error) {
				log.Printf("page somebody: %s: %v", key.IdempotencyKey, err)
			},
		},
	})
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	bank := &partner{transfers: map[string]string{}}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: payments{client, bank}, ReadHeaderTimeout: 10 * time.Second}
	defer func() { _ = server.Close() }()
	go func() { _ = server.Serve(listener) }()

	key := "order-" + idempotency.RandomRequestID()
	for i, expected := range []struct {
		body, replayed string
		status         int
	}{
		{`{"amount":50}`, "", http.StatusBadGateway},
		{`{"amount":50}`, "", http.StatusCreated},
		{`{"amount": 50}`, "true", http.StatusCreated},
		{`{"amount":51}`, "", http.StatusUnprocessableEntity},
	} {
		status, replayed, answer, err := post("http://"+listener.Addr().String(), key, expected.body)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "POST %d: %d %s\n", i+1, status, answer)
		if status != expected.status || replayed != expected.replayed {
			return fmt.Errorf("POST %d: expected %d", i+1, expected.status)
		}
	}
	fmt.Fprintln(out, "money moved:", bank.moved)
	if bank.moved != 50 {
		return errors.New("it should have been 50")
	}
	return nil
}

// post is what the payer does.
func post(address, key, body string) (status int, replayed, answer string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader([]byte(body)))
	if err != nil {
		return 0, "", "", err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Idempotency-Key", key)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", "", err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, response.Header.Get("Idempotent-Replayed"), string(text), err
}
