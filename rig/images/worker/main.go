// Command worker is a workload with a known appetite: it burns the CPU and holds the memory that it is told to.
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

const help = `A workload with a known appetite.

  worker [flags]            runs until it is told to end
  worker ready              exits with 0 if the worker of this container is ready: for exec probes
  worker set KEY=VALUE...   changes the appetite of the worker of this container: cpu, memory, grow

It is asked over HTTP too: GET /ready (200 or 503), GET /appetite, POST /appetite?cpu=100&memory=32.

Flags:
`

type settings struct {
	appetite  appetite
	readyIn   time.Duration
	startWork time.Duration
	freeIn    time.Duration
	endIn     time.Duration
	listen    string
	election  election
}

func main() {
	log.SetFlags(0)
	if len(os.Args) > 1 && (os.Args[1] == "ready" || os.Args[1] == "set") {
		os.Exit(ask(os.Args[1], os.Args[2:]))
	}
	chosen := parse()
	log.Printf("worker: cpu=%dm memory=%dMi grow=%dMi/s up to %dMi, ready after %s and %s of work",
		chosen.appetite.Millicores, chosen.appetite.MiB, chosen.appetite.Growth, chosen.appetite.GrowTo,
		chosen.readyIn, chosen.startWork)
	run(chosen)
}

func parse() settings {
	chosen := settings{}
	flag.Int64Var(&chosen.appetite.Millicores, "cpu", 0, "`millicores` to burn")
	flag.Int64Var(&chosen.appetite.MiB, "memory", 0, "`MiB` to hold from the start, beside the program's own few")
	flag.Int64Var(&chosen.appetite.Growth, "grow", 0, "`MiB` to add in every second")
	flag.Int64Var(&chosen.appetite.GrowTo, "grow-to", 0, "`MiB` at which growing stops (0: never)")
	flag.DurationVar(&chosen.readyIn, "ready-after", 0, "be ready no earlier than this after the start")
	flag.DurationVar(&chosen.startWork, "start-work", 0, "CPU time of one core to burn, as fast as allowed, before being ready")
	flag.DurationVar(&chosen.freeIn, "free-after", 0, "give all memory back this long after the start (0: never)")
	flag.DurationVar(&chosen.endIn, "end-after", 0, "exit with 0 this long after the start (0: never)")
	flag.StringVar(&chosen.election.Lease, "elect-by", "", "`lease` by which workers elect one of them, each named by $POD_NAME")
	flag.StringVar(&chosen.election.Server, "server", "", "`URL` of the API server that keeps the lease (else that of the pod's cluster)")
	flag.DurationVar(&chosen.election.Duration, "lease-duration", 4*time.Second, "how long the lease lasts without a renewal")
	flag.Int64Var(&chosen.election.LeadCPU, "lead-cpu", 0, "`millicores` to burn while leading")
	flag.StringVar(&chosen.listen, "listen", ":8080", "`address` to be asked at")
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), help)
		flag.PrintDefaults()
	}
	flag.Parse()
	return chosen
}

func run(chosen settings) {
	it := newWorker(chosen.appetite)
	go it.start(chosen.readyIn, chosen.startWork)
	for core := range 2 * runtime.NumCPU() {
		go it.burn(int64(core))
	}
	go it.grow()
	if chosen.freeIn > 0 {
		time.AfterFunc(chosen.freeIn, it.free)
	}
	if chosen.endIn > 0 {
		time.AfterFunc(chosen.endIn, func() { os.Exit(0) })
	}
	if chosen.election.Lease != "" {
		go newCandidate(it, chosen.election).run()
	}
	go endOnSignal()
	http.HandleFunc("GET /ready", it.tellReady)
	http.HandleFunc("GET /appetite", it.tellAppetite)
	http.HandleFunc("POST /appetite", it.changeAppetite)
	log.Fatal(http.ListenAndServe(chosen.listen, nil))
}

func endOnSignal() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	<-signals
	os.Exit(0)
}

func (it *worker) tellReady(out http.ResponseWriter, _ *http.Request) {
	if !it.ready.Load() {
		http.Error(out, "not yet", http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(out, "ready")
}

func (it *worker) tellAppetite(out http.ResponseWriter, _ *http.Request) {
	wanted := it.wants()
	fmt.Fprintf(out, "cpu=%d memory=%d grow=%d grow-to=%d holds=%d\n",
		wanted.Millicores, wanted.MiB, wanted.Growth, wanted.GrowTo, it.holds())
}

func (it *worker) changeAppetite(out http.ResponseWriter, request *http.Request) {
	wanted := it.wants()
	fields := map[string]*int64{
		"cpu": &wanted.Millicores, "memory": &wanted.MiB, "grow": &wanted.Growth, "grow-to": &wanted.GrowTo,
	}
	for key, values := range request.URL.Query() {
		number, err := strconv.ParseInt(values[0], 10, 64)
		if fields[key] == nil || err != nil {
			http.Error(out, fmt.Sprintf("%s=%s: no such key, or not a number", key, values[0]), http.StatusBadRequest)
			return
		}
		*fields[key] = number
	}
	it.want(wanted)
	it.tellAppetite(out, request)
}

// ask puts a question to the worker at the default address of this container; the answer is an exit code.
func ask(verb string, words []string) int {
	method, url := http.MethodGet, "http://127.0.0.1:8080/ready"
	if verb == "set" {
		method, url = http.MethodPost, "http://127.0.0.1:8080/appetite?"
		for _, word := range words {
			url += word + "&"
		}
	}
	request, err := http.NewRequest(method, url, nil)
	if err != nil {
		log.Print(err)
		return 2
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		log.Print(err)
		return 1
	}
	defer answer.Body.Close()
	_, _ = io.Copy(os.Stdout, answer.Body)
	if answer.StatusCode != http.StatusOK {
		return 1
	}
	return 0
}
