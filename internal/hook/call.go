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
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/heighliner/heighliner/internal/outbound"
)

// Headers of a call.
const (
	HeaderDelivery  = "X-Heighliner-Delivery"
	HeaderTimestamp = "X-Heighliner-Timestamp"
	HeaderSignature = "X-Heighliner-Signature"
)

// maxAnswer is what is read of an answer, and maxMessage what is shown of it, in
// bytes. No call takes longer than maxTimeout.
const (
	maxAnswer  = 4 << 10
	maxMessage = 256
	maxTimeout = time.Minute
)

// StatusRefused of an answer is the no of a gate that is for good: the rollout ends.
const StatusRefused = http.StatusPreconditionFailed

// reply to one call; unanswered: no one spoke for the receiver.
type reply struct {
	yes, refused, unanswered bool
	message                  string
}

// silent are the answers of whoever stands before a receiver that is away, or of one that
// has no time: they say nothing about a release.
func silent(code int) bool {
	switch code {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// Credentials of a hook.
type Credentials struct {
	// Key signs the calls; nil: they are not signed.
	Key []byte
	// CA holds the certificates, in PEM, to check the server by; nil: the system's.
	CA []byte
}

// Sign gives the signature of a body: the HMAC with SHA-256 of the timestamp, a full
// stop and the body, as the header carries it.
func Sign(key []byte, timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(timestamp))
	mac.Write([]byte{'.'})
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

// call asks once. It ends with the hook's timeout, and never fails: what keeps it
// from an answer is in the reply.
func (p *Pool) call(ctx context.Context, q *Question, credentials Credentials) reply {
	ctx, cancel := context.WithTimeout(ctx, timeout(&q.Hook))
	defer cancel()
	answer, err := p.post(ctx, q, credentials)
	if err != nil {
		why := cause(err, timeout(&q.Hook))
		if refused := new(outbound.RefusedError); errors.As(err, &refused) {
			why = uncallable + why
		}
		return reply{unanswered: true, message: line(why)}
	}
	answer.message = line(answer.message)
	return answer
}

func (p *Pool) post(ctx context.Context, q *Question, credentials Credentials) (reply, error) {
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

// clientOptions bound a call. Its time is bounded by the hook's timeout.
func clientOptions(ca []byte) outbound.Options {
	return outbound.Options{Timeout: maxTimeout, MaxBody: maxAnswer, CA: ca}
}

// client for a call: one for all, and one of its own for certificates of its own.
func (p *Pool) client(ca []byte) (*http.Client, error) {
	if ca == nil {
		return p.shared, nil
	}
	return p.policy.Client(clientOptions(ca))
}

// cause words why there was no answer, without the URL, whose query may hold what is
// nobody's business.
func cause(err error, limit time.Duration) string {
	if wrapped := new(url.Error); errors.As(err, &wrapped) {
		if wrapped.Timeout() || errors.Is(err, context.DeadlineExceeded) {
			return fmt.Sprintf("no answer within %s", limit)
		}
		err = wrapped.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Sprintf("no answer within %s", limit)
	}
	return err.Error()
}

// firstLine of a text that says something.
func firstLine(text string) string {
	for l := range strings.Lines(text) {
		if l = strings.TrimSpace(l); l != "" {
			return l
		}
	}
	return ""
}

// line cuts a text to what may be shown.
func line(text string) string { return outbound.Printable([]byte(text), maxMessage) }
