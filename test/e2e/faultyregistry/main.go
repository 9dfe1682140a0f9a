// Command faultyregistry is an overloaded registry: it responds to every request with 429 and asks for a pause of 20
// seconds. The end-to-end tests run it as a pod. /readyz reports its health.
package main

import (
	"log"
	"net/http"
	"time"
)

func main() {
	mux := http.NewServeMux()
	mux.HandleFunc("/readyz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "20")
		http.Error(w, `{"errors":[{"code":"TOOMANYREQUESTS","message":"too many requests"}]}`, http.StatusTooManyRequests)
	})
	server := &http.Server{Addr: ":8080", Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	log.Fatal(server.ListenAndServe())
}
