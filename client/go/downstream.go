package idempotency

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"
)

// Shape is what a partner allows its idempotency keys to look like.
type Shape string

// The shapes of downstream keys, besides Digits.
const (
	// ShapeUUID is 36 characters, a UUID.
	ShapeUUID Shape = "uuid"
	// ShapeHex32 is 32 characters, lower-case hexadecimal.
	ShapeHex32 Shape = "hex32"
	// ShapeMax50 is for partners that allow 50 characters: lower-case hexadecimal.
	ShapeMax50 Shape = "max50"
	// ShapeMax255 is for partners that allow 255 characters: 64 of lower-case
	// hexadecimal.
	ShapeMax255 Shape = "max255"
)

// Digits is n decimal digits, the first not 0; 16 to 64. Fewer are refused where
// the shape is used: two payments in a hundred million would share a key, and one
// of them would not be made.
func Digits(n int) Shape { return Shape("digits" + strconv.Itoa(n)) }

const (
	downstreamKeyPrefix = "idempotency.v1 downstream key"
	minDigits           = 16
	maxDigits           = 64
	maxPartnerBytes     = 64
)

// `\z` and not `$`, which would let a line break follow.
var downstreamKeyForm = regexp.MustCompile(
	`\A[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\z`)

// DownstreamKeyFor derives from an attempt's downstream key the key for one of
// several partners, or for one whose field is narrower than a UUID. partner is a
// name of yours, 1 to 64 of printable ASCII, that never changes. The results are
// the same in every language's client, and independent of each other. A wrong
// downstreamKey, partner or shape is ErrInvalidField.
func DownstreamKeyFor(downstreamKey, partner string, shape Shape) (string, error) {
	if !downstreamKeyForm.MatchString(downstreamKey) {
		return "", invalidField("downstream_key", "must be a UUID in lower case, as the service gave it")
	}
	if len(partner) < 1 || len(partner) > maxPartnerBytes ||
		strings.ContainsFunc(partner, func(c rune) bool { return c < 0x20 || c > 0x7E }) {
		return "", invalidField("partner", "must be 1 to 64 of printable ASCII")
	}
	message := []byte(downstreamKeyPrefix)
	for _, part := range []string{downstreamKey, partner, string(shape)} {
		message = binary.BigEndian.AppendUint16(message, uint16(len(part)&0xFFFF))
		message = append(message, part...)
	}
	digest := sha256.Sum256(message)
	switch shape {
	case ShapeUUID:
		return uuidText([16]byte(digest[:16]), 8), nil
	case ShapeHex32:
		return hex.EncodeToString(digest[:16]), nil
	case ShapeMax50:
		return hex.EncodeToString(digest[:25]), nil
	case ShapeMax255:
		return hex.EncodeToString(digest[:]), nil
	}
	if n, ok := digitsOf(shape); ok {
		return digitsKey(digest, n), nil
	}
	return "", invalidField("shape", "must be uuid, hex32, max50, max255 or digits16 to digits64")
}

func digitsOf(shape Shape) (int, bool) {
	text, ok := strings.CutPrefix(string(shape), "digits")
	n, err := strconv.Atoi(text)
	// Digits again, because Atoi also takes a sign and leading zeros.
	return n, ok && err == nil && n >= minDigits && n <= maxDigits && shape == Digits(n)
}

func digitsKey(digest [sha256.Size]byte, n int) string {
	first, rest := new(big.Int), new(big.Int).SetBytes(digest[:])
	rest.DivMod(rest, big.NewInt(9), first)
	rest.Mod(rest, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n-1)), nil))
	return fmt.Sprintf("%d%0*s", first.Int64()+1, n-1, rest.String())
}
