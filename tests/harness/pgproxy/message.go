package pgproxy

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
)

// What a client may send before it has started a session, by the number in the place of the protocol's version.
const (
	cancelRequest = 80877102
	sslRequest    = 80877103
	gssRequest    = 80877104
)

// Types of messages, as far as the proxy looks at them. Some letters mean one thing from the client, another from the server.
const (
	fromClientBind      = 'B'
	fromClientClose     = 'C'
	fromClientExecute   = 'E'
	fromClientFlush     = 'H'
	fromClientFunction  = 'F'
	fromClientParse     = 'P'
	fromClientQuery     = 'Q'
	fromClientSync      = 'S'
	fromClientTerminate = 'X'

	fromServerCommandComplete = 'C'
	fromServerEmptyQuery      = 'I'
	fromServerError           = 'E'
	fromServerNotice          = 'N'
	fromServerReady           = 'Z'
	fromServerSuspended       = 's'
)

// PostgreSQL itself takes no message above 1 GiB.
const longestMessage = 1 << 30

// A whole message, its type (none in the first one of a connection) and length included.
type message []byte

func (m message) kind() byte   { return m[0] }
func (m message) body() []byte { return m[5:] }

func readMessage(r *bufio.Reader) (message, error) {
	head, err := r.Peek(5)
	if err != nil {
		return nil, err
	}
	length := binary.BigEndian.Uint32(head[1:])
	if length < 4 || length > longestMessage {
		return nil, fmt.Errorf("a message of %d bytes", length)
	}
	whole := make(message, 1+length)
	_, err = io.ReadFull(r, whole)
	return whole, err
}

// Reads the first message of a connection, which has no type.
func readFirst(r *bufio.Reader) (message, uint32, error) {
	head, err := r.Peek(8)
	if err != nil {
		return nil, 0, err
	}
	length := binary.BigEndian.Uint32(head)
	if length < 8 || length > 10_000 {
		return nil, 0, fmt.Errorf("a first message of %d bytes", length)
	}
	code := binary.BigEndian.Uint32(head[4:])
	whole := make(message, length)
	_, err = io.ReadFull(r, whole)
	return whole, code, err
}

func newMessage(kind byte, body []byte) message {
	whole := make(message, 5, 5+len(body))
	whole[0] = kind
	binary.BigEndian.PutUint32(whole[1:], uint32(4+len(body)))
	return append(whole, body...)
}

// Takes a text that ends in a NUL off the front.
func cutText(body []byte) (string, []byte) {
	for i, b := range body {
		if b == 0 {
			return string(body[:i]), body[i+1:]
		}
	}
	return string(body), nil
}
