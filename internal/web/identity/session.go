package identity

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// Names of cookies. Browsers accept those with __Host- only from exactly this host, over HTTPS.
const (
	sessionCookie = "__Host-hlnr-session"
	loginCookie   = "__Host-hlnr-login-" // and the start of the state
)

// maxCookie is the length in bytes that browsers accept, less some room for the name and attributes of a
// cookie.
const maxCookie = 3800

// KeyLength is the length of the key of sessions, in bytes.
const KeyLength = 32

// session is the content of a session cookie.
type session struct {
	ID      string    `json:"i"`
	User    string    `json:"u"`
	Groups  []string  `json:"g,omitempty"`
	Expires time.Time `json:"e"`
}

// sealer encrypts and signs cookies.
type sealer struct{ aead cipher.AEAD }

// newSealer returns a sealer with a key of KeyLength bytes; nil for a random one, with which sessions end when
// the server stops.
func newSealer(key []byte) (*sealer, error) {
	if key == nil {
		key = make([]byte, KeyLength)
		if _, err := rand.Read(key); err != nil {
			return nil, fmt.Errorf("make a key of sessions: %w", err)
		}
	}
	if len(key) != KeyLength {
		return nil, fmt.Errorf("the key of sessions has %d bytes: it needs %d", len(key), KeyLength)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("use the key of sessions: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("use the key of sessions: %w", err)
	}
	return &sealer{aead}, nil
}

// seal encrypts a value for a cookie with a name. It can be opened for that name only.
func (s *sealer) seal(name string, value any) (string, error) {
	raw, err := json.Marshal(value)
	if err != nil {
		return "", fmt.Errorf("write cookie: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nil, nil, raw, []byte(name))), nil
}

var errSealed = errors.New("the cookie is not one of this server")

// open decrypts a value of seal.
func (s *sealer) open(name, text string, into any) error {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return errSealed
	}
	plain, err := s.aead.Open(nil, nil, raw, []byte(name))
	if err != nil {
		return errSealed
	}
	if err := json.Unmarshal(plain, into); err != nil {
		return errSealed
	}
	return nil
}

// cookie returns a cookie with the attributes of all cookies; age is in seconds, negative to remove it.
func cookie(name, value string, age int) *http.Cookie {
	return &http.Cookie{Name: name, Value: value, Path: "/", MaxAge: age, Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode}
}

// ended are the sessions that were logged out and have not expired.
type ended struct {
	mu sync.Mutex
	at map[string]time.Time // expiry
}

func (e *ended) add(s session, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.at == nil {
		e.at = map[string]time.Time{}
	}
	for id, expires := range e.at {
		if !expires.After(now) {
			delete(e.at, id)
		}
	}
	e.at[s.ID] = s.Expires
}

func (e *ended) has(id string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, is := e.at[id]
	return is
}
