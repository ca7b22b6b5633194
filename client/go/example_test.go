package idempotency_test

import (
	"context"
	"fmt"

	"idempotencyd/client/go"
)

// How application code is tested: the work is done, its record is lost, and the
// second call asks the partner before it pays again.
func ExampleFakeRunner() {
	runner := idempotency.NewFakeRunner()
	balance := 0
	pay := func() (idempotency.Result, error) {
		return runner.RunOnce(context.Background(),
			idempotency.Key{MerchantID: "shop-1", IdempotencyKey: "order-7"},
			idempotency.Request{Operation: "POST /payments", Content: idempotency.Payload{Data: []byte("50")}},
			idempotency.TakeOver,
			func(_ context.Context, attempt *idempotency.Attempt) (idempotency.WorkResult, error) {
				if attempt.UnknownAttempts == 0 || balance == 0 {
					balance += 50
				}
				return idempotency.Complete(idempotency.Outcome{StatusCode: 201}), nil
			})
	}
	runner.LoseNextRecord()
	_, err := pay()
	fmt.Println(err)
	result, err := pay()
	fmt.Println(idempotency.HTTPAnswer(result, err).Status, balance)
	// Output:
	// idempotency: OutcomeNotRecorded: answered by a FakeRunner; the work has been done or begun
	// 201 50
}
