package workloadidentity

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// The responses are copied from "Authenticate workloads to Google Cloud APIs" (metadata server) and from the reference of the Security Token Service, with
// other values.
const (
	metadataAnswer  = `{"access_token":"ya29.metadata","expires_in":3599,"token_type":"Bearer"}`
	federatedAnswer = `{"access_token":"ya29.federated","issued_token_type":"urn:ietf:params:oauth:token-type:access_token","token_type":"Bearer","expires_in":3599}`
	googleDenied    = `{"error":"invalid_grant","error_description":"The given credential is rejected by the attribute condition of request 4711."}`
)

// TestMetadataServer checks that the metadata server provides the token on GKE and Compute Engine.
func TestMetadataServer(t *testing.T) {
	const path = "/computeMetadata/v1/instance/service-accounts/default/token"
	e := serve(t, httptest.NewServer, map[string]func(http.ResponseWriter, *recorded){
		path: text(200, "application/json", metadataAnswer),
		"/computeMetadata/v1/universe/universe-domain": text(200, "text/plain", "googleapis.com"),
	})
	environment(t, map[string]string{"GCE_METADATA_HOST": strings.TrimPrefix(e.URL, "http://")})
	c, expires, err := newGoogle(client(http.DefaultTransport)).credential(t.Context(), "europe-west1-docker.pkg.dev")
	if err != nil {
		t.Fatal(err)
	}
	if left := time.Until(expires); c.Username != "oauth2accesstoken" || c.Password != "ya29.metadata" || left < 50*time.Minute || left > time.Hour {
		t.Errorf("got user %q until %v", c.Username, expires)
	}
	if asked := e.to(path); len(asked) != 1 || asked[0].Header.Get("Metadata-Flavor") != "Google" {
		t.Errorf("the metadata server gets %v", asked)
	}
}

// TestFederation checks that the token of the ServiceAccount, which is in a file, is exchanged for an access token at the Security Token Service.
func TestFederation(t *testing.T) {
	e := serve(t, httptest.NewServer, map[string]func(http.ResponseWriter, *recorded){"/v1/token": text(200, "application/json", federatedAnswer)})
	settings := `{"type":"external_account","audience":"//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/k",
		"subject_token_type":"urn:ietf:params:oauth:token-type:jwt","token_url":"` + e.URL + `/v1/token","credential_source":{"file":"` + file(t, "token-of-the-service-account") + `"}}`
	environment(t, map[string]string{"GOOGLE_APPLICATION_CREDENTIALS": file(t, settings)})
	c, err := identityOf(t, Google).Credential(t.Context(), "gcr.io")
	if err != nil || c.Password != "ya29.federated" {
		t.Fatalf("got %v, %v", c, err)
	}
	asked := e.to("/v1/token")
	if len(asked) != 1 {
		t.Fatalf("%d requests, want 1", len(asked))
	}
	form := asked[0].form(t)
	for key, want := range map[string]string{
		"grant_type": "urn:ietf:params:oauth:grant-type:token-exchange", "subject_token": "token-of-the-service-account",
		"audience": "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/k", "scope": scopeOfTokens,
	} {
		if form.Get(key) != want {
			t.Errorf("the service gets %s=%q, want %q", key, form.Get(key), want)
		}
	}
}

// TestRefusedByGoogle checks the errors for a missing identity, and for an identity that is not accepted.
func TestRefusedByGoogle(t *testing.T) {
	e := serve(t, httptest.NewServer, map[string]func(http.ResponseWriter, *recorded){"/v1/token": text(400, "application/json", googleDenied)})
	for name, c := range map[string]struct{ settings, want string }{
		"rejected": {`{"type":"external_account","audience":"a","subject_token_type":"urn:ietf:params:oauth:token-type:jwt","token_url":"` + e.URL +
			`/v1/token","credential_source":{"file":"` + file(t, "token") + `"}}`, "Google Cloud responds with 400 Bad Request"},
		"not JSON": {`{`, "Google Cloud cannot be called: the environment of the manager does not define a valid identity"},
	} {
		environment(t, map[string]string{"GOOGLE_APPLICATION_CREDENTIALS": file(t, c.settings)})
		_, err := identityOf(t, Google).Credential(t.Context(), "gcr.io")
		if err == nil || err.Error() != c.want {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}
