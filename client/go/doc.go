// Package idempotency is the client of the idempotency service: it does a
// piece of work once, however often its request arrives, and hands every later
// call the recorded answer.
//
//	client, err := idempotency.New("dns:///idempotency.payments.svc:50051",
//		idempotency.ClientOptions{Credentials: credentials.NewTLS(tlsConfig)})
//	…
//	result, err := client.RunOnce(ctx,
//		idempotency.Key{MerchantID: merchant, IdempotencyKey: key},
//		idempotency.Request{
//			Operation: "POST /payments",
//			Content:   idempotency.Payload{Data: body, ContentType: "application/json"},
//		},
//		idempotency.TakeOver,
//		func(ctx context.Context, attempt *idempotency.Attempt) (idempotency.WorkResult, error) {
//			answer, err := partner.Pay(ctx, attempt.DownstreamKey, order)
//			if err != nil {
//				return idempotency.WorkResult{}, err // recorded as unknown
//			}
//			return idempotency.Complete(idempotency.Outcome{StatusCode: 201, Body: answer}), nil
//		})
//
// What the client sees to, so that callers cannot get it wrong:
//
//   - Without the service's word fn does not run.
//   - Everything that is not known is recorded as unknown: errors, panics,
//     cancellations, time-outs.
//   - The lease is renewed behind fn's back; fn's context is cancelled when the
//     lease is lost, and everything else that makes its work pointless.
//   - What fn came to is recorded whether or not the caller still waits, with
//     identical bytes, until it is known to be recorded or refused.
//   - A caller that gives up before fn ran frees the key.
//
// A client is one for the process and safe for concurrent use. Lengths are
// bytes; printable ASCII means 0x20 to 0x7E. Most bounds are the server's: a
// value outside them is not cut to fit but refused, as InvalidField with the
// field's name.
package idempotency
