package analysis

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// serveTLS returns the URL of a server, and its certificate in PEM format.
func serveTLS(t testing.TB, handler http.HandlerFunc) (string, []byte) {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // discards errors from failed handshakes
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}

// signature computes a signature by following the steps in "Create a signed AWS API request" in the IAM user guide,
// for the signed headers of the request.
func signature(r *http.Request, body []byte, signed []string, secret, scope string) string {
	// Step 1: the canonical request.
	var query []string
	for name, values := range r.URL.Query() {
		for _, v := range values {
			query = append(query, escape(name)+"="+escape(v))
		}
	}
	slices.Sort(query)
	path := r.URL.EscapedPath()
	if path == "" {
		path = "/"
	}
	segments := strings.Split(path, "/")
	for i := range segments { // The path of the request is already encoded, and must be encoded again.
		segments[i] = escape(segments[i])
	}
	var headers strings.Builder
	for _, name := range signed {
		text := strings.Join(r.Header.Values(name), ",")
		switch name {
		case "host":
			text = r.Host
		case "content-length":
			text = fmt.Sprint(len(body))
		}
		fmt.Fprintf(&headers, "%s:%s\n", name, strings.Join(strings.Fields(text), " "))
	}
	canonical := strings.Join([]string{r.Method, strings.Join(segments, "/"), strings.Join(query, "&"), headers.String(), strings.Join(signed, ";"), digest(body)}, "\n")
	// Steps 2 and 3: the hash of the canonical request, and the string to sign.
	text := strings.Join([]string{"AWS4-HMAC-SHA256", r.Header.Get("X-Amz-Date"), scope, digest([]byte(canonical))}, "\n")
	// Step 4: the key for the day, the region and the service.
	key := []byte("AWS4" + secret)
	for part := range strings.SplitSeq(scope, "/") {
		key = mac(key, part)
	}
	return hex.EncodeToString(mac(key, text))
}

// escape encodes everything except unreserved characters (RFC 3986, section 2.3).
func escape(text string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~", c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

// verify returns the reason why a server would reject a request that a user should have signed. The reason is
// empty if the server would accept the request.
func verify(r *http.Request, body []byte, id, secret, region, service string, now time.Time) string {
	rest, is := strings.CutPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 ")
	parts := map[string]string{}
	for part := range strings.SplitSeq(rest, ",") {
		name, text, _ := strings.Cut(strings.TrimSpace(part), "=")
		parts[name] = text
	}
	at, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
	scope := at.Format("20060102") + "/" + region + "/" + service + "/aws4_request"
	signed := strings.Split(parts["SignedHeaders"], ";")
	switch {
	case !is || err != nil:
		return fmt.Sprintf("no signature: %q %v", r.Header.Get("Authorization"), err)
	case now.Sub(at).Abs() > 5*time.Minute:
		return "the signature is dated " + at.String()
	case parts["Credential"] != id+"/"+scope:
		return "credential " + parts["Credential"] + ", want " + id + "/" + scope
	case !slices.IsSorted(signed):
		return "the signed headers are not sorted"
	case parts["Signature"] != signature(r, body, signed, secret, scope):
		return "the signature is wrong"
	}
	for name := range r.Header { // headers that IAM requires, and headers that change the meaning of a request
		name = strings.ToLower(name)
		if (strings.HasPrefix(name, "x-amz-") || name == "content-type") && !slices.Contains(signed, name) {
			return name + " is not signed"
		}
	}
	if !slices.Contains(signed, "host") {
		return "the host is not signed"
	}
	return ""
}

// These values are from get-vanilla, an example of the AWS test suite for Signature Version 4.
const (
	exampleID     = "AKIDEXAMPLE"
	exampleKey    = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
	exampleResult = "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"
)

// TestPublishedSignature compares the published example with the signatures that this package and its tests compute.
func TestPublishedSignature(t *testing.T) {
	t.Parallel()
	at := time.Date(2015, 8, 30, 12, 36, 0, 0, time.UTC)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "https://example.amazonaws.com/", nil)
	r.RequestURI = ""
	if err := (awsKeys{id: exampleID, key: exampleKey}).sign(r, "us-east-1", "service", at); err != nil {
		t.Fatal(err)
	}
	const want = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, SignedHeaders=host;x-amz-date, Signature=" + exampleResult
	if got := r.Header.Get("Authorization"); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := signature(r, nil, []string{"host", "x-amz-date"}, exampleKey, "20150830/us-east-1/service/aws4_request"); got != exampleResult {
		t.Errorf("the tests compute %s", got)
	}
	if why := verify(r, nil, exampleID, exampleKey, "us-east-1", "service", at); why != "" {
		t.Error(why)
	}
	r.Header.Set("X-Amz-Target", "other")
	if why := verify(r, nil, exampleID, exampleKey, "us-east-1", "service", at); why != "x-amz-target is not signed" {
		t.Errorf("%q for an additional header", why)
	}
}

// signedSender returns a sender for servers with the given certificate. The sender trusts the certificate
// because the ca Secret contains it.
func signedSender(t testing.TB, ca []byte, more secrets) *sender {
	t.Helper()
	all := secrets{"shop/ca": {"ca.crt": ca}}
	for name, data := range more {
		all[name] = data
	}
	return openSender(t, all)
}

// TestSignedRequests checks the signatures of requests on a server that verifies them.
func TestSignedRequests(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		path, body, headers string
		session             string
	}{
		"get":              {path: "/"},
		"no path":          {path: ""},
		"query":            {path: "/workspaces/ws-1/api/v1/query?time=1&query=sum%28rate%28a%7Bb%3D%22c%20d%22%7D%5B1m%5D%29%29&a=%2B&a="},
		"plus in a query":  {path: "/?b=1+2&a=~*'"},
		"encoded path":     {path: "/a%20b/%2Fc"},
		"post":             {path: "/", body: `{"StartTime": 1}`, headers: "X-Amz-Target: GraniteServiceVersion20100801.GetMetricData\nX-Team:   a   b "},
		"temporary":        {path: "/", session: "FwoGZXIvYXdzE=="},
		"temporary post":   {path: "/", body: "{}", session: "FwoGZXIvYXdzE=="},
		"redirect":         {path: "/redirect", body: "{}"},
		"redirect of post": {path: "/again", body: "{}"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requests := 0
			address, ca := serveTLS(t, func(w http.ResponseWriter, r *http.Request) {
				requests++
				body, _ := io.ReadAll(r.Body)
				if why := verify(r, body, exampleID, exampleKey, "eu-central-1", "monitoring", time.Now()); why != "" {
					t.Errorf("%s %s: %s", r.Method, r.URL, why)
				}
				if got := r.Header.Get("X-Amz-Security-Token"); got != test.session {
					t.Errorf("session token %q, want %q", got, test.session)
				}
				if got := r.Header.Get("Content-Type"); len(body) > 0 && got != "application/x-amz-json-1.0" {
					t.Errorf("type %q", got)
				}
				switch r.URL.Path {
				case "/redirect":
					http.Redirect(w, r, "/next", http.StatusSeeOther)
				case "/again":
					http.Redirect(w, r, "/next?a=b", http.StatusTemporaryRedirect)
				default:
					answers(200, `{"v": 2}`)(w, r)
				}
			})
			keys := map[string][]byte{keyAccessID: []byte(exampleID + "\n"), keyAccessSecret: []byte(exampleKey + "\n")}
			if test.session != "" {
				keys[keySession] = []byte(test.session)
			}
			s := signedSender(t, ca, secrets{"shop/aws": keys})
			q := query{provider: providerWeb, address: address + test.path, body: test.body, headers: test.headers, text: "body.v", namespace: "shop",
				login: loginAWS, secret: "aws", region: "eu-central-1", service: "monitoring", authority: "ca"}
			check(t, answered{value: 2}, s.send(t.Context(), q))
			if requests == 0 {
				t.Error("no request")
			}
		})
	}
}

// TestSignedOnlyByHTTPS checks that AWS and Google credentials are not sent without TLS, and that a request with an
// invalid query is not signed.
func TestSignedOnlyByHTTPS(t *testing.T) {
	t.Parallel()
	s := openSender(t, secrets{"shop/a": {keyAccessID: []byte(exampleID), keyAccessSecret: []byte(exampleKey)}})
	address := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") })
	for _, l := range []login{loginAWS, loginGoogle} {
		q := query{provider: providerWeb, address: address, text: "body", namespace: "shop", login: l, secret: "a", region: "a", service: "b"}
		check(t, answered{reason: BadQuery}, s.send(t.Context(), q))
	}
	q := query{provider: providerWeb, address: "https://127.0.0.1:1/?a=%zz", text: "body", namespace: "shop", login: loginAWS, secret: "a", region: "a", service: "b"}
	check(t, answered{reason: BadQuery}, s.send(t.Context(), q))
}

// TestSecretsOfAWS checks the errors for Secrets, and that no error contains a value.
func TestSecretsOfAWS(t *testing.T) {
	t.Parallel()
	good := func(change map[string]string) map[string][]byte {
		data := map[string][]byte{keyAccessID: []byte(exampleID), keyAccessSecret: []byte("hunter2")}
		for key, text := range change {
			data[key] = []byte(text)
		}
		return data
	}
	for name, test := range map[string]struct {
		data map[string][]byte
		want string
	}{
		"missing":      {nil, "metrics[].web.aws.secretRef of the analysis: not found"},
		"empty":        {map[string][]byte{}, "Secret a has no key access-key-id, which web.aws needs"},
		"no secret":    {map[string][]byte{keyAccessID: []byte("hunter2")}, "Secret a has no key secret-access-key, which web.aws needs"},
		"bad id":       {good(map[string]string{keyAccessID: "hunter2/x"}), "Secret a: the key access-key-id must consist of at most 128 letters, digits and '_'"},
		"long id":      {good(map[string]string{keyAccessID: strings.Repeat("A", 129)}), "Secret a: the key access-key-id must consist of at most 128 letters, digits and '_'"},
		"bad secret":   {good(map[string]string{keyAccessSecret: "hunter2\nx"}), "Secret a: the key secret-access-key must be at most 8 KiB of printable ASCII"},
		"bad session":  {good(map[string]string{keySession: "hunter2\r\nX: y"}), "Secret a: the key session-token must be at most 8 KiB of printable ASCII"},
		"long session": {good(map[string]string{keySession: strings.Repeat("a", 8<<10+1)}), "Secret a: the key session-token must be at most 8 KiB of printable ASCII"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := secrets{}
			if test.data != nil {
				all["shop/a"] = test.data
			}
			q := query{provider: providerWeb, address: "https://127.0.0.1:1", text: "body", namespace: "shop", login: loginAWS, secret: "a", region: "b", service: "c"}
			got := openSender(t, all).send(t.Context(), q)
			if got.err == nil || got.err.Reason != BadSecret || got.err.Message != test.want {
				t.Errorf("%v, want %s", got.err, test.want)
			}
		})
	}
}

// TestRefusalsOfAWS checks the errors for responses with different codes, and for a manager whose clock is wrong.
func TestRefusalsOfAWS(t *testing.T) {
	t.Parallel()
	const hours = 3 * time.Hour
	for name, test := range map[string]struct {
		status int
		header string // value of X-Amzn-Errortype
		body   string
		ahead  time.Duration // how far the manager's clock is ahead
		reason Reason
		want   string
	}{
		"signature":        {400, "", `{"__type":"InvalidSignatureException","message":"hunter2"}`, 0, Unauthorized, "check the key secret-access-key of Secret a, web.aws.region and web.aws.service"},
		"clock ahead":      {400, "", `{"__type":"InvalidSignatureException","message":"Signature not yet current"}`, hours, Unauthorized, "InvalidSignatureException: the manager's clock is 3h0m0s ahead of the provider's: correct the clock"},
		"clock behind":     {403, "SignatureDoesNotMatch", "", -hours, Unauthorized, "SignatureDoesNotMatch: the manager's clock is 3h0m0s behind the provider's: correct the clock"},
		"session":          {400, "", `{"__type":"com.amazon.coral.service#ExpiredTokenException"}`, 0, Unauthorized, "the key session-token of Secret a has expired: write new credentials into the Secret"},
		"unknown":          {403, "UnrecognizedClientException:http://internal.amazon.com/coral/", "", 0, Unauthorized, "it does not know the key access-key-id of Secret a"},
		"denied":           {400, "", `{"__type":"AccessDeniedException","Message":"User: arn:aws:iam::1:user/x is not authorized"}`, 0, Unauthorized, "grant the user or role of Secret a the permission that the request needs, such as cloudwatch:GetMetricData"},
		"forbidden":        {403, "", "<html>hunter2</html>", 0, Unauthorized, "the provider responded with 403 Forbidden: check Secret a, web.aws.region and web.aws.service"},
		"forbidden, clock": {403, "", "", hours, Unauthorized, "check Secret a, web.aws.region and web.aws.service; the manager's clock is 3h0m0s ahead"},
		"throttled":        {400, "", `{"__type":"ThrottlingException"}`, 0, Throttled, "the provider responded with ThrottlingException"},
		"too many":         {429, "", "", 0, Throttled, "the provider responded with 429 Too Many Requests"},
		"validation":       {400, "", `{"__type":"com.amazonaws.cloudwatch.v2010_08_01#InvalidParameterValueException"}`, 0, ClientError, "the provider responded with 400 Bad Request (InvalidParameterValueException)"},
		"code with markup": {400, "", `{"__type":"<b>hunter2"}`, 0, ClientError, "the provider responded with 400 Bad Request"},
		"no code":          {404, "", `[]`, 0, ClientError, "the provider responded with 404 Not Found"},
		"internal":         {500, "", `{"__type":"InternalServiceFault"}`, 0, ServerError, "the provider responded with 500 Internal Server Error"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address, ca := serveTLS(t, func(w http.ResponseWriter, r *http.Request) {
				if test.header != "" {
					w.Header().Set("X-Amzn-Errortype", test.header)
				}
				answers(test.status, test.body)(w, r)
			})
			s := signedSender(t, ca, secrets{"shop/a": {keyAccessID: []byte(exampleID), keyAccessSecret: []byte(exampleKey)}})
			s.now = func() time.Time { return time.Now().Add(test.ahead) }
			q := query{provider: providerWeb, address: address, body: "{}", text: "body", namespace: "shop", login: loginAWS, secret: "a", region: "b", service: "c", authority: "ca"}
			got := s.send(t.Context(), q)
			if got.err == nil {
				t.Fatal("no error")
			}
			message := regexp.MustCompile(`(2h59m|3h0m)\d+s`).ReplaceAllString(got.err.Message, "3h0m0s") // a slow machine may differ by seconds
			if got.err.Reason != test.reason || !strings.Contains(message, test.want) {
				t.Errorf("%v, want %s: %s", got.err, test.reason, test.want)
			}
			for _, private := range []string{"hunter2", exampleID, exampleKey, "arn:"} {
				if strings.Contains(got.err.Error(), private) {
					t.Errorf("%v contains %s", got.err, private)
				}
			}
		})
	}
}
