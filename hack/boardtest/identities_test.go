package boardtest

import (
	"encoding/json"
	"encoding/pem"
	"io"
	"log/slog"
	"net/http"
	"testing"

	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
)

// identities returns an OpenID provider with the users ana and bob, and the client "board" with the secret "secret".
func identities(t *testing.T, dir, issuer, board string) http.Handler {
	t.Helper()
	people := map[string]storage.User{}
	for _, name := range []string{"ana", "bob"} {
		people[name] = storage.User{ID: name, Username: name, Password: password, Email: name + "@example.com", EmailVerified: true}
	}
	raw, err := json.Marshal(people)
	if err != nil {
		t.Fatal(err)
	}
	store, err := storage.StoreFromFile(write(t, dir, "users.json", raw))
	if err != nil {
		t.Fatal(err)
	}
	storage.RegisterClients(storage.WebClient("board", "secret", board+"/login/callback"))
	return exampleop.SetupServer(issuer, storage.NewStorage(store), slog.New(slog.NewTextHandler(io.Discard, nil)), false)
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
