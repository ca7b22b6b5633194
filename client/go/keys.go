package idempotency

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	maxKindBytes         = 32
	maxParts             = 16
	maxPartBytes         = 1024
	maxWrittenPartBytes  = 64
	maxBusinessKeyBytes  = 255
	businessKeyRetention = 30 * 24 * time.Hour
)

// RandomRequestID returns a UUIDv4 from the system's random source: a key for a
// caller that makes it once, keeps it, and sends it with every retry.
func RandomRequestID() string { return newUUID() }

func newUUID() string {
	var bytes [16]byte
	// Never fails: where the system has no random source the process ends.
	_, _ = rand.Read(bytes[:])
	return uuidText(bytes, 4)
}

// uuidText sets the version and RFC 9562's variant.
func uuidText(bytes [16]byte, version byte) string {
	bytes[6] = bytes[6]&0x0F | version<<4
	bytes[8] = bytes[8]&0x3F | 0x80
	digits := hex.EncodeToString(bytes[:])
	return strings.Join([]string{digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]}, "-")
}

// BusinessKey names an operation by what it is about, such as pay:order-7:card
// for BusinessKey("pay", "order-7", "card"). Different kinds and parts never make
// the same key, and the same ones make it in every language's client.
//
// kind is 1 to 32 of a-z 0-9 . _ -; there are 1 to 16 parts, each 1 to 1,024 bytes
// of UTF-8. Otherwise it fails with ErrInvalidField. The result has at most 255
// bytes of printable ASCII; what is longer is hashed.
//
// A business key never changes, while a day's retention ends: use NewBusinessKey,
// which asks for a longer one. The caller's own unique constraint stays the last
// line.
func BusinessKey(kind string, parts ...string) (string, error) {
	if err := checkBusinessKey(kind, parts); err != nil {
		return "", err
	}
	written := []string{kind}
	for _, part := range parts {
		written = append(written, writtenPart(part))
	}
	key := strings.Join(written, ":")
	if len(key) > maxBusinessKeyBytes {
		return kind + ":~~" + digestText(key), nil
	}
	return key, nil
}

// NewBusinessKey returns the Key of a BusinessKey, with a TTL of 30 days.
func NewBusinessKey(merchantID, kind string, parts ...string) (Key, error) {
	key, err := BusinessKey(kind, parts...)
	if err != nil {
		return Key{}, err
	}
	return Key{MerchantID: merchantID, IdempotencyKey: key, TTL: businessKeyRetention}, nil
}

func checkBusinessKey(kind string, parts []string) error {
	if len(kind) < 1 || len(kind) > maxKindBytes || strings.ContainsFunc(kind, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < '0' || c > '9') && !strings.ContainsRune("._-", c)
	}) {
		return invalidField("kind", "must be 1 to 32 of a-z 0-9 . _ -")
	}
	if len(parts) < 1 || len(parts) > maxParts {
		return invalidField("parts", "must be 1 to 16")
	}
	for i, part := range parts {
		if len(part) < 1 || len(part) > maxPartBytes || !utf8.ValidString(part) {
			return invalidField(fmt.Sprintf("parts[%d]", i), "must be 1 to 1,024 bytes of UTF-8")
		}
	}
	return nil
}

func writtenPart(part string) string {
	const digits = "0123456789ABCDEF"
	var written strings.Builder
	for i := range len(part) {
		c := part[i]
		if c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9' ||
			c == '.' || c == '_' || c == '-' {
			written.WriteByte(c)
		} else {
			written.Write([]byte{'%', digits[c>>4], digits[c&0x0F]})
		}
	}
	if written.Len() > maxWrittenPartBytes {
		return "~" + digestText(part)
	}
	return written.String()
}

func digestText(text string) string {
	digest := sha256.Sum256([]byte(text))
	return base64.RawURLEncoding.EncodeToString(digest[:])
}
