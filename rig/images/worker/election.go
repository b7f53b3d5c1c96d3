package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"time"
)

const (
	accountFolder = "/var/run/secrets/kubernetes.io/serviceaccount/"
	microTime     = "2006-01-02T15:04:05.000000Z07:00"
)

// election says by which lease workers elect one of them, and what the one that leads wants.
type election struct {
	Lease    string
	Server   string
	Duration time.Duration
	LeadCPU  int64
}

// lease is the part of a Lease that an election is about.
type lease struct {
	APIVersion string        `json:"apiVersion"`
	Kind       string        `json:"kind"`
	Metadata   leaseMetadata `json:"metadata"`
	Spec       leaseSpec     `json:"spec"`
}

type leaseMetadata struct {
	Name            string `json:"name"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
}

type leaseSpec struct {
	HolderIdentity       string `json:"holderIdentity"`
	LeaseDurationSeconds int    `json:"leaseDurationSeconds"`
	AcquireTime          string `json:"acquireTime,omitempty"`
	RenewTime            string `json:"renewTime"`
	LeaseTransitions     int    `json:"leaseTransitions"`
}

// candidate takes part in an election as programs do that use client-go: whoever sees the lease unchanged for
// its whole duration, by its own clock, takes it; who holds it renews it several times within that.
type candidate struct {
	it       *worker
	chosen   election
	usual    int64
	identity string
	client   *http.Client
	path     string
	seen     leaseSpec
	changed  time.Time
	renewed  time.Time
}

func newCandidate(it *worker, chosen election) *candidate {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(read("ca.crt"))
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
	if chosen.Server == "" {
		chosen.Server = "https://" + net.JoinHostPort(os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT"))
	}
	name := os.Getenv("POD_NAME")
	return &candidate{
		it: it, chosen: chosen, usual: it.wants().Millicores,
		identity: fmt.Sprintf("%s_%d", name, time.Now().UnixNano()),
		client:   &http.Client{Transport: transport, Timeout: chosen.Duration / 2},
		path:     fmt.Sprintf("%s/apis/coordination.k8s.io/v1/namespaces/%s/leases", chosen.Server, read("namespace")),
	}
}

// run looks at the lease for ever, and works harder while it leads.
func (who *candidate) run() {
	for {
		if err := who.takeTurn(); err != nil {
			log.Print("election: ", err)
		}
		wanted := who.it.wants()
		wanted.Millicores = who.usual
		if time.Since(who.renewed) < who.chosen.Duration {
			wanted.Millicores = who.chosen.LeadCPU
		}
		who.it.want(wanted)
		time.Sleep(who.chosen.Duration / 4)
	}
}

func (who *candidate) takeTurn() error {
	found := lease{}
	status, err := who.ask(http.MethodGet, who.path+"/"+who.chosen.Lease, nil, &found)
	if err != nil {
		return err
	}
	if found.Spec != who.seen {
		who.seen, who.changed = found.Spec, time.Now()
	}
	if status == http.StatusNotFound {
		return who.write(http.MethodPost, who.path, lease{Metadata: leaseMetadata{Name: who.chosen.Lease}})
	}
	isOurs := found.Spec.HolderIdentity == who.identity
	if isOurs || found.Spec.HolderIdentity == "" || time.Since(who.changed) >= who.chosen.Duration {
		return who.write(http.MethodPut, who.path+"/"+who.chosen.Lease, found)
	}
	return nil
}

// write makes the lease ours, or goes on holding it.
func (who *candidate) write(method, path string, wanted lease) error {
	now := time.Now()
	wanted.APIVersion, wanted.Kind = "coordination.k8s.io/v1", "Lease"
	if wanted.Spec.HolderIdentity != who.identity {
		wanted.Spec.AcquireTime = now.UTC().Format(microTime)
		wanted.Spec.LeaseTransitions++
		log.Print("election: leading as ", who.identity)
	}
	wanted.Spec.HolderIdentity = who.identity
	wanted.Spec.LeaseDurationSeconds = int(who.chosen.Duration.Seconds())
	wanted.Spec.RenewTime = now.UTC().Format(microTime)
	status, err := who.ask(method, path, &wanted, nil)
	if err == nil && status/100 == 2 {
		who.renewed = now
	}
	return err
}

func (who *candidate) ask(method, path string, body, answer any) (int, error) {
	sent, err := json.Marshal(body)
	if err != nil {
		return 0, err
	}
	request, err := http.NewRequest(method, path, bytes.NewReader(sent))
	if err != nil {
		return 0, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+string(read("token")))
	response, err := who.client.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	told, err := io.ReadAll(response.Body)
	if err == nil && answer != nil && response.StatusCode == http.StatusOK {
		err = json.Unmarshal(told, answer)
	}
	return response.StatusCode, err
}

// read is a file of the account that the pod runs as; a token is replaced now and then.
func read(name string) []byte {
	content, err := os.ReadFile(accountFolder + name)
	if err != nil {
		log.Fatal(err)
	}
	return bytes.TrimSpace(content)
}
