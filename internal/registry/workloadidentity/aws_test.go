package workloadidentity

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// The responses are copied from the reference documentation of the clouds, with other values: the example of GetAuthorizationToken in the Amazon ECR
// API Reference, and the example of AssumeRoleWithWebIdentity in the AWS STS API Reference.
const (
	ecrAnswer = `{"authorizationData":[{"authorizationToken":"QVdTOmVjci1wYXNzd29yZA==","expiresAt":1.7672256E9,"proxyEndpoint":"https://123456789012.dkr.ecr.eu-west-1.amazonaws.com"}]}`

	stsAnswer = `<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
  <AssumeRoleWithWebIdentityResult>
    <SubjectFromWebIdentityToken>system:serviceaccount:heighliner-system:heighliner</SubjectFromWebIdentityToken>
    <Audience>sts.amazonaws.com</Audience>
    <AssumedRoleUser>
      <Arn>arn:aws:sts::123456789012:assumed-role/heighliner/session</Arn>
      <AssumedRoleId>AROACLKWSDQRAOEXAMPLE:session</AssumedRoleId>
    </AssumedRoleUser>
    <Credentials>
      <SessionToken>session-token</SessionToken>
      <SecretAccessKey>secret-access-key</SecretAccessKey>
      <Expiration>2099-10-24T23:00:23Z</Expiration>
      <AccessKeyId>ASIAIOSFODNN7EXAMPLE</AccessKeyId>
    </Credentials>
  </AssumeRoleWithWebIdentityResult>
  <ResponseMetadata><RequestId>ad4156e9-bce1-11e2-82e6-6b6efEXAMPLE</RequestId></ResponseMetadata>
</AssumeRoleWithWebIdentityResponse>`

	ecrDenied = `{"__type":"AccessDeniedException","Message":"User: arn:aws:sts::123456789012:assumed-role/heighliner is not authorized to perform: ecr:GetAuthorizationToken"}`

	stsDenied = `<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type><Code>AccessDenied</Code>
  <Message>Not authorized to perform sts:AssumeRoleWithWebIdentity</Message></Error><RequestId>one-of-many</RequestId></ErrorResponse>`

	ecrRegistry = "123456789012.dkr.ecr.eu-west-1.amazonaws.com"
)

// exchange records requests, and responds to each path with the response that is set for it.
type exchange struct {
	*httptest.Server
	mu       sync.Mutex
	requests []*recorded
	answers  map[string]func(w http.ResponseWriter, r *recorded)
}

// recorded is a request that was completely read.
type recorded struct {
	*http.Request
	body string
}

func (r *recorded) form(t *testing.T) url.Values {
	t.Helper()
	values, err := url.ParseQuery(r.body)
	if err != nil {
		t.Fatal(err)
	}
	return values
}

func serve(t *testing.T, start func(http.Handler) *httptest.Server, answers map[string]func(w http.ResponseWriter, r *recorded)) *exchange {
	t.Helper()
	e := &exchange{answers: answers}
	e.Server = start(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		r := &recorded{req, string(body)}
		e.mu.Lock()
		e.requests = append(e.requests, r)
		answer := e.answers[req.URL.Path]
		e.mu.Unlock()
		if answer == nil {
			http.Error(w, "no answer is set", http.StatusTeapot)
			return
		}
		answer(w, r)
	}))
	t.Cleanup(e.Close)
	return e
}

// to returns the requests for a path.
func (e *exchange) to(path string) (out []*recorded) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, r := range e.requests {
		if r.URL.Path == path {
			out = append(out, r)
		}
	}
	return out
}

func text(status int, kind, body string) func(http.ResponseWriter, *recorded) {
	return func(w http.ResponseWriter, _ *recorded) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
}

// environment sets variables, and unsets the other variables of all clouds.
func environment(t *testing.T, set map[string]string) {
	t.Helper()
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		for _, prefix := range []string{"AWS_", "AZURE_", "GOOGLE_", "GCE_", "IDENTITY_", "MSI_"} {
			if strings.HasPrefix(name, prefix) {
				t.Setenv(name, "") // restored at the end of the test
				os.Unsetenv(name)
			}
		}
	}
	t.Setenv("HOME", t.TempDir())
	for name, value := range set {
		t.Setenv(name, value)
	}
}

func file(t *testing.T, content string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func identityOf(t *testing.T, cloud string) *Identity {
	t.Helper()
	i, err := New(Options{Clouds: []string{cloud}, Registries: http.DefaultTransport})
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// TestRoleOfServiceAccount uses the environment that EKS sets for IAM roles of service accounts. It checks that the token of the ServiceAccount is
// exchanged for credentials at STS, and these credentials for an ECR token.
func TestRoleOfServiceAccount(t *testing.T) {
	e := serve(t, httptest.NewServer, map[string]func(http.ResponseWriter, *recorded){})
	e.answers["/sts/"] = text(200, "text/xml", stsAnswer)
	e.answers["/ecr/"] = text(200, "application/x-amz-json-1.1", ecrAnswer)
	environment(t, map[string]string{
		"AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/heighliner", "AWS_WEB_IDENTITY_TOKEN_FILE": file(t, "token-of-the-service-account"),
		"AWS_ENDPOINT_URL_STS": e.URL + "/sts/", "AWS_ENDPOINT_URL_ECR": e.URL + "/ecr/",
	})
	c, expires, err := newAWS(client(http.DefaultTransport), client(http.DefaultTransport)).credential(t.Context(), ecrRegistry)
	if err != nil {
		t.Fatal(err)
	}
	if c.Username != "AWS" || c.Password != "ecr-password" || !expires.Equal(time.Unix(1767225600, 0)) {
		t.Errorf("got user %q until %v", c.Username, expires)
	}
	sts, ecr := e.to("/sts/"), e.to("/ecr/")
	if len(sts) != 1 || len(ecr) != 1 {
		t.Fatalf("%d requests to STS, %d to ECR, want one each", len(sts), len(ecr))
	}
	form := sts[0].form(t)
	for key, want := range map[string]string{"Action": "AssumeRoleWithWebIdentity", "Version": "2011-06-15", "RoleArn": "arn:aws:iam::123456789012:role/heighliner", "WebIdentityToken": "token-of-the-service-account"} {
		if form.Get(key) != want {
			t.Errorf("STS gets %s=%q, want %q", key, form.Get(key), want)
		}
	}
	if h := ecr[0].Header; h.Get("X-Amz-Target") != "AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken" || h.Get("X-Amz-Security-Token") != "session-token" ||
		!strings.Contains(h.Get("Authorization"), "ASIAIOSFODNN7EXAMPLE/") || !strings.Contains(h.Get("Authorization"), "/eu-west-1/ecr/aws4_request") {
		t.Errorf("ECR gets %v", h)
	}
}

// TestPodIdentity checks that the agent provides the credentials in the environment that EKS Pod Identity sets.
func TestPodIdentity(t *testing.T) {
	e := serve(t, httptest.NewServer, map[string]func(http.ResponseWriter, *recorded){
		"/v1/credentials": text(200, "application/json", `{"AccessKeyId":"ASIAAGENT","SecretAccessKey":"s","Token":"agent-token","AccountId":"123456789012","Expiration":"2099-01-01T00:00:00Z"}`),
		"/":               text(200, "application/x-amz-json-1.1", ecrAnswer),
	})
	environment(t, map[string]string{
		"AWS_CONTAINER_CREDENTIALS_FULL_URI": e.URL + "/v1/credentials", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": file(t, "token-of-the-pod"),
		"AWS_ENDPOINT_URL_ECR": e.URL,
	})
	c, err := identityOf(t, AWS).Credential(t.Context(), ecrRegistry)
	if err != nil || c.Password != "ecr-password" {
		t.Fatalf("got %v, %v", c, err)
	}
	if agent := e.to("/v1/credentials"); len(agent) != 1 || agent[0].Header.Get("Authorization") != "token-of-the-pod" {
		t.Errorf("the agent gets %v", agent)
	}
	if ecr := e.to("/"); len(ecr) != 1 || ecr[0].Header.Get("X-Amz-Security-Token") != "agent-token" {
		t.Errorf("ECR gets %v", ecr)
	}
}

// TestRefusedByAWS checks that the message contains the service and its error code, but neither the request number nor the text of the response.
func TestRefusedByAWS(t *testing.T) {
	e := serve(t, httptest.NewServer, map[string]func(http.ResponseWriter, *recorded){})
	environment(t, map[string]string{
		"AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/heighliner", "AWS_WEB_IDENTITY_TOKEN_FILE": file(t, "token"),
		"AWS_ENDPOINT_URL_STS": e.URL + "/sts/", "AWS_ENDPOINT_URL_ECR": e.URL + "/ecr/",
	})
	for _, c := range []struct {
		name string
		sts  func(http.ResponseWriter, *recorded)
		ecr  func(http.ResponseWriter, *recorded)
		want string
	}{
		{"role", text(403, "text/xml", stsDenied), nil, "AWS responds with AccessDenied"},
		{"permissions", text(200, "text/xml", stsAnswer), text(400, "application/x-amz-json-1.1", ecrDenied), "Amazon ECR in eu-west-1 responds with AccessDeniedException"},
		{"no token", text(200, "text/xml", stsAnswer), text(200, "application/x-amz-json-1.1", `{"authorizationData":[]}`), "Amazon ECR in eu-west-1 returned no credential"},
		{"not base64", text(200, "text/xml", stsAnswer), text(200, "application/x-amz-json-1.1", strings.Replace(ecrAnswer, "QVdTOm", "***", 1)), "Amazon ECR in eu-west-1 returned no credential"},
		{"not JSON", text(200, "text/xml", stsAnswer), text(200, "text/html", `<html>`), "Amazon ECR in eu-west-1 returned no credential"},
		{"without end", text(200, "text/xml", stsAnswer), func(w http.ResponseWriter, _ *recorded) {
			io.WriteString(w, `{"authorizationData":[`)
			for w.Header().Set("X", "y"); ; {
				if _, err := io.WriteString(w, strings.Repeat(" ", 64<<10)); err != nil {
					return
				}
			}
		}, "Amazon ECR in eu-west-1 returned a response that is too large"},
	} {
		e.mu.Lock()
		e.answers["/sts/"], e.answers["/ecr/"] = c.sts, c.ecr
		e.mu.Unlock()
		_, err := identityOf(t, AWS).Credential(t.Context(), ecrRegistry)
		if err == nil || err.Error() != c.want {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}
