package workloadidentity

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/lru"
)

// The responses are copied from "OAuth 2.0 client credentials flow" of Microsoft Entra ID, from the REST reference of Azure Container Registry
// ("Authentication - Exchange AAD Access Token For ACR Refresh Token"), and from "How to use managed identities ... to acquire an access token", with other
// values.
const (
	entraAnswer   = `{"token_type":"Bearer","expires_in":3599,"ext_expires_in":3599,"access_token":"entra-token"}`
	managedAnswer = `{"access_token":"managed-token","client_id":"c","expires_in":"86399","expires_on":"4070908800","resource":"https://containerregistry.azure.net","token_type":"Bearer"}`
	refreshAnswer = `{"refresh_token":"acr-refresh-token"}`
	entraDenied   = `{"error":"invalid_client","error_description":"AADSTS700213: No matching federated identity record found. Trace ID: 4711","error_codes":[700213]}`
	entraMetadata = `{"token_endpoint":"https://login.example.com/tenant-1/oauth2/v2.0/token","authorization_endpoint":"https://login.example.com/tenant-1/oauth2/v2.0/authorize","issuer":"https://login.example.com/tenant-1/v2.0"}`
	acrDenied     = `{"errors":[{"code":"UNAUTHORIZED","message":"authentication required, correlation 4711"}]}`
	discovery     = "/tenant-1/v2.0/.well-known/openid-configuration"
	acr           = "acmeshop.azurecr.io"
)

// azureAt returns an Identity for Azure whose hosts all resolve to a test server.
func azureAt(e *exchange) *Identity {
	t := e.Client().Transport.(*http.Transport).Clone()
	t.TLSClientConfig.InsecureSkipVerify = true
	t.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, e.Listener.Addr().String())
	}
	a := newAzure(client(t), client(t))
	a.instanceDiscovery = false
	return &Identity{sources: []source{a}, clock: testclock.NewFakePassiveClock(time.Now()), known: lru.New(maxCredentials)}
}

// TestEntraWorkloadID uses the environment that Microsoft Entra Workload ID sets. It checks that the token of the
// ServiceAccount is exchanged for an Entra ID token, and this token for the refresh token of the registry.
func TestEntraWorkloadID(t *testing.T) {
	e := serve(t, httptest.NewTLSServer, map[string]func(http.ResponseWriter, *recorded){
		discovery:                     text(200, "application/json", entraMetadata),
		"/tenant-1/oauth2/v2.0/token": text(200, "application/json", entraAnswer),
		"/oauth2/exchange":            text(200, "application/json", refreshAnswer),
	})
	environment(t, map[string]string{
		"AZURE_CLIENT_ID": "client-1", "AZURE_TENANT_ID": "tenant-1", "AZURE_FEDERATED_TOKEN_FILE": file(t, "token-of-the-service-account"),
		"AZURE_AUTHORITY_HOST": "https://login.example.com/",
	})
	c, err := azureAt(e).Credential(t.Context(), acr)
	if err != nil {
		t.Fatal(err)
	}
	if c.Username != tokenUser || c.IdentityToken != "acr-refresh-token" || c.Password != "" {
		t.Errorf("got user %q", c.Username)
	}
	entra, exchanged := e.to("/tenant-1/oauth2/v2.0/token"), e.to("/oauth2/exchange")
	if len(entra) != 1 || len(exchanged) != 1 {
		t.Fatalf("%d requests to Entra ID, %d to the registry, want one each", len(entra), len(exchanged))
	}
	form := entra[0].form(t)
	if form.Get("client_assertion") != "token-of-the-service-account" || form.Get("client_id") != "client-1" || !strings.Contains(form.Get("scope"), tokensForRegistries) {
		t.Errorf("Entra ID gets the client %q and the scope %q", form.Get("client_id"), form.Get("scope"))
	}
	form = exchanged[0].form(t)
	for key, want := range map[string]string{"grant_type": "access_token", "service": acr, "tenant": "tenant-1", "access_token": "entra-token"} {
		if form.Get(key) != want {
			t.Errorf("the registry gets %s=%q, want %q", key, form.Get(key), want)
		}
	}
	if exchanged[0].Host != acr {
		t.Errorf("the exchange is with %q", exchanged[0].Host)
	}
}

// TestManagedIdentity checks that the instance metadata service provides the token of the node if there is no token file.
func TestManagedIdentity(t *testing.T) {
	const path = "/metadata/identity/oauth2/token"
	e := serve(t, httptest.NewServer, map[string]func(http.ResponseWriter, *recorded){path: text(200, "application/json", managedAnswer)})
	registryServer := serve(t, httptest.NewTLSServer, map[string]func(http.ResponseWriter, *recorded){"/oauth2/exchange": text(200, "application/json", refreshAnswer)})
	environment(t, map[string]string{"AZURE_CLIENT_ID": "client-1"})
	i := azureAt(registryServer)
	metadata := e.Client().Transport.(*http.Transport).Clone()
	metadata.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, e.Listener.Addr().String())
	}
	i.sources[0].(*azure).services = client(metadata)
	c, err := i.Credential(t.Context(), acr)
	if err != nil || c.IdentityToken != "acr-refresh-token" {
		t.Fatalf("got %v, %v", c, err)
	}
	asked := e.to(path)
	if len(asked) == 0 {
		t.Fatal("the metadata service received no request")
	}
	last := asked[len(asked)-1]
	if q := last.URL.Query(); last.Header.Get("Metadata") != "true" || q.Get("resource") != "https://containerregistry.azure.net" || q.Get("client_id") != "client-1" {
		t.Errorf("the metadata service gets %v, %v", q, last.Header)
	}
	if got := registryServer.to("/oauth2/exchange"); len(got) != 1 || got[0].form(t).Get("access_token") != "managed-token" || got[0].form(t).Has("tenant") {
		t.Errorf("the registry gets %v", got)
	}
}

// TestRefusedByAzure checks that the message contains the service but no text that differs between identical
// failures.
func TestRefusedByAzure(t *testing.T) {
	e := serve(t, httptest.NewTLSServer, map[string]func(http.ResponseWriter, *recorded){discovery: text(200, "application/json", entraMetadata)})
	environment(t, map[string]string{
		"AZURE_CLIENT_ID": "client-1", "AZURE_TENANT_ID": "tenant-1", "AZURE_FEDERATED_TOKEN_FILE": file(t, "token"), "AZURE_AUTHORITY_HOST": "https://login.example.com/",
	})
	for _, c := range []struct {
		name            string
		entra, exchange func(http.ResponseWriter, *recorded)
		want            string
	}{
		{"identity", text(401, "application/json", entraDenied), nil, "Microsoft Entra ID responds with 401 Unauthorized"},
		{"registry", text(200, "application/json", entraAnswer), text(401, "application/json", acrDenied), acr + " responds with 401 Unauthorized"},
		{"no token", text(200, "application/json", entraAnswer), text(200, "application/json", `{}`), acr + " returned no credential"},
	} {
		e.mu.Lock()
		e.answers["/tenant-1/oauth2/v2.0/token"], e.answers["/oauth2/exchange"] = c.entra, c.exchange
		e.mu.Unlock()
		_, err := azureAt(e).Credential(t.Context(), acr)
		if err == nil || err.Error() != c.want {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}
