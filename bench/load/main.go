// Load asks a webhook for reviews as an API server does: by HTTP/1.1 over TLS, on connections that
// stay open. It ends after so many requests or so many seconds, whatever comes first, and tells as
// JSON how that went.
//
// The file of reviews holds one per line; they are sent in turn. Only loopback is spoken to.
package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

type summary struct {
	Answered int     `json:"answered"`
	Patched  int     `json:"patched"`
	Failed   int     `json:"failed"`
	Seconds  float64 `json:"seconds"`
	P50      float64 `json:"p50"`
	P99      float64 `json:"p99"`
}

// What one connection has seen.
type share struct {
	latencies []time.Duration
	patched   int
	failed    int
}

type load struct {
	client   *http.Client
	url      string
	reviews  [][]byte
	requests int64
	deadline time.Time
	asked    atomic.Int64
}

func main() {
	port := flag.Int("port", 0, "where the webhook listens on loopback")
	authority := flag.String("authority", "", "the file of the certificate that it is believed by")
	file := flag.String("reviews", "", "the file of reviews")
	connections := flag.Int("connections", 8, "how many requests are under way at a time")
	requests := flag.Int64("requests", 1000, "how many requests at most")
	seconds := flag.Float64("seconds", 30, "how long at most")
	flag.Parse()

	reviews, err := os.ReadFile(*file)
	fail(err)
	start := time.Now()
	l := &load{
		client:   newClient(*authority, *connections),
		url:      fmt.Sprintf("https://127.0.0.1:%d/?timeout=5s", *port),
		reviews:  bytes.Split(bytes.TrimSpace(reviews), []byte("\n")),
		requests: *requests,
		deadline: start.Add(time.Duration(*seconds * float64(time.Second))),
	}
	shares := make([]share, *connections)
	var all sync.WaitGroup
	for i := range shares {
		all.Go(func() { shares[i] = l.run() })
	}
	all.Wait()
	fail(json.NewEncoder(os.Stdout).Encode(sum(shares, time.Since(start))))
}

func newClient(authority string, connections int) *http.Client {
	pem, err := os.ReadFile(authority)
	fail(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	return &http.Client{
		Timeout: 10 * time.Second,
		Transport: &http.Transport{
			MaxConnsPerHost:     connections,
			MaxIdleConnsPerHost: connections,
			// An API server never asks for more than that.
			TLSClientConfig: &tls.Config{RootCAs: roots, NextProtos: []string{"http/1.1"}},
		},
	}
}

func (l *load) run() share {
	var s share
	for {
		number := l.asked.Add(1) - 1
		if number >= l.requests || time.Now().After(l.deadline) {
			return s
		}
		began := time.Now()
		answer, err := l.ask(l.reviews[number%int64(len(l.reviews))])
		if err != nil {
			s.failed++
			continue
		}
		s.latencies = append(s.latencies, time.Since(began))
		if bytes.Contains(answer, []byte(`"patch":`)) {
			s.patched++
		}
	}
}

func (l *load) ask(review []byte) ([]byte, error) {
	request, err := http.NewRequest(http.MethodPost, l.url, bytes.NewReader(review))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/json, */*")
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "kube-apiserver-admission")
	response, err := l.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d", response.StatusCode)
	}
	return io.ReadAll(response.Body)
}

func sum(shares []share, elapsed time.Duration) summary {
	var latencies []time.Duration
	found := summary{Seconds: elapsed.Seconds()}
	for _, s := range shares {
		latencies = append(latencies, s.latencies...)
		found.Patched += s.patched
		found.Failed += s.failed
	}
	slices.Sort(latencies)
	if found.Answered = len(latencies); found.Answered > 0 {
		found.P50 = latencies[found.Answered/2].Seconds()
		found.P99 = latencies[found.Answered*99/100].Seconds()
	}
	return found
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}
