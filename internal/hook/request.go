package hook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/heighliner/heighliner/internal/outbound"
)

// These are the headers of a call.
const (
	HeaderDelivery  = "X-Heighliner-Delivery"
	HeaderTimestamp = "X-Heighliner-Timestamp"
	HeaderSignature = "X-Heighliner-Signature"
)

// maxAnswer is the maximum number of bytes of a response that are read, and maxMessage is the maximum number of
// bytes of a message in the status. maxTimeout limits the duration of a call.
const (
	maxAnswer  = 4 << 10
	maxMessage = 256
	maxTimeout = time.Minute
)

// StatusRefused is the HTTP status code with which a gate aborts the rollout.
const StatusRefused = http.StatusPreconditionFailed

// reply is the reply to one call. unanswered reports whether the receiver itself did not answer.
type reply struct {
	yes, refused, unanswered bool
	message                  string
}

// silent reports whether a status code comes from a proxy whose backend is unavailable, or from an
// overloaded receiver. Such a status code is not an answer about the release.
func silent(code int) bool {
	switch code {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// Credentials are the credentials of a hook.
type Credentials struct {
	// Key signs the calls. If Key is nil, the calls are not signed.
	Key []byte
	// CA contains certificate authorities in PEM format. If CA is nil, the system's certificate
	// authorities are used.
	CA []byte
}

// Sign returns the signature header for a body. The signature is the HMAC-SHA256 of the timestamp, a period and
// the body.
func Sign(key []byte, timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(timestamp))
	mac.Write([]byte{'.'})
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

// call makes one call, with the timeout of the hook. It never returns an error. If there is no answer, the reply contains
// the reason.
func (p *Pool) call(ctx context.Context, q *Call, credentials Credentials) reply {
	ctx, cancel := context.WithTimeout(ctx, timeout(&q.Hook))
	defer cancel()
	answer, err := p.post(ctx, q, credentials)
	if err != nil {
		why := outbound.WithoutURL(err, timeout(&q.Hook))
		if refused := new(outbound.RefusedError); errors.As(err, &refused) {
			why = uncallable + why
		}
		return reply{unanswered: true, message: line(why)}
	}
	answer.message = line(answer.message)
	return answer
}

func (p *Pool) post(ctx context.Context, q *Call, credentials Credentials) (reply, error) {
	now := p.now()
	body := q.Body
	body.Time = now.UTC()
	raw, err := json.Marshal(body)
	if err != nil {
		return reply{}, fmt.Errorf("write body: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, q.Hook.URL, bytes.NewReader(raw))
	if err != nil {
		return reply{}, err
	}
	timestamp := strconv.FormatInt(now.Unix(), 10)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", p.userAgent)
	req.Header.Set(HeaderDelivery, body.ID)
	req.Header.Set(HeaderTimestamp, timestamp)
	if credentials.Key != nil {
		req.Header.Set(HeaderSignature, Sign(credentials.Key, timestamp, raw))
	}
	client, err := p.client(credentials.CA)
	if err != nil {
		return reply{}, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil && len(text) == 0 {
		return reply{}, fmt.Errorf("read answer: %w", err)
	}
	answer := reply{
		yes:        resp.StatusCode >= 200 && resp.StatusCode <= 204,
		refused:    resp.StatusCode == StatusRefused,
		unanswered: silent(resp.StatusCode),
		message:    fmt.Sprintf("HTTP %d", resp.StatusCode),
	}
	if resp.StatusCode >= 300 && resp.StatusCode < 400 {
		answer.message += ": redirects are not followed"
	} else if first := firstLine(string(text)); first != "" {
		answer.message += ": " + first
	}
	return answer, nil
}

// clientOptions returns the options that limit a call. The timeout of the hook also limits the duration of the
// call.
func clientOptions(ca []byte) outbound.Options {
	return outbound.Options{Timeout: maxTimeout, MaxBody: maxAnswer, CA: ca}
}

// client returns the shared client, or a separate client if the credentials contain certificate authorities.
func (p *Pool) client(ca []byte) (*http.Client, error) {
	if ca == nil {
		return p.shared, nil
	}
	return p.policy.Client(clientOptions(ca))
}

// firstLine returns the first line that is not empty.
func firstLine(text string) string {
	for l := range strings.Lines(text) {
		if l = strings.TrimSpace(l); l != "" {
			return l
		}
	}
	return ""
}

// line converts a string to one line of at most maxMessage bytes.
func line(text string) string { return outbound.Printable([]byte(text), maxMessage) }
