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

// These are the names of the cookies. Browsers accept cookies with the __Host- prefix only over HTTPS and only from the
// exact host to which they send them, so no other host in the domain can set them.
const (
	sessionCookie = "__Host-hlnr-session"
	loginCookie   = "__Host-hlnr-login-" // followed by the first characters of login.State
)

// maxCookie is the maximum length in bytes that browsers accept for a cookie, minus some space for its name and attributes.
const maxCookie = 3800

// KeyLength is the length of the session key, in bytes.
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

// newSealer returns a sealer with a key of KeyLength bytes. If the key is nil, the sealer uses a random key, and sessions end when the server
// stops.
func newSealer(key []byte) (*sealer, error) {
	if key == nil {
		key = make([]byte, KeyLength)
		if _, err := rand.Read(key); err != nil {
			return nil, fmt.Errorf("create a session key: %w", err)
		}
	}
	if len(key) != KeyLength {
		return nil, fmt.Errorf("the session key is %d bytes long, but must be %d bytes long", len(key), KeyLength)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("use the session key: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("use the session key: %w", err)
	}
	return &sealer{aead}, nil
}

// seal encrypts a value for the cookie with the given name. The result can be opened only with the same name.
func (s *sealer) seal(name string, value any) (string, error) {
	raw, err := json.Marshal(value)
	if err != nil {
		return "", fmt.Errorf("write cookie: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nil, nil, raw, []byte(name))), nil
}

var errSealed = errors.New("the cookie was not created by this server")

// open decrypts a value that seal encrypted.
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

// cookie returns a cookie with the common attributes. age is in seconds; a negative age removes the cookie.
func cookie(name, value string, age int) *http.Cookie {
	return &http.Cookie{Name: name, Value: value, Path: "/", MaxAge: age, Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode}
}

// ended contains the sessions that were ended by a logout and have not expired.
type ended struct {
	mu sync.Mutex
	at map[string]time.Time // expiry, by session ID
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
