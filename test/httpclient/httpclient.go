// Package httpclient creates HTTP clients for tests.
package httpclient

import "net/http"

// New returns a client that opens a connection for each request and closes it after the response.
//
// If parallel tests share http.DefaultClient, their requests can fail: httptest.Server.Close also closes the idle connections of
// http.DefaultTransport, including one that another test is about to use.
func New() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DisableKeepAlives = true
	return &http.Client{Transport: transport}
}
