// The oracle answers golden cases with the original Vertical Pod Autoscaler, imported as a module.
//
// It reads a golden file on standard input and writes it to standard output with the `expected` of
// every case computed anew; whatever stood there before is not even read. A case on which the
// original panics is dropped and reported on standard error.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"runtime/debug"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/features"
)

var crdPath = flag.String("crd", "", "the file of CRDs shipped with the original, for the set vpa_validation")

// answers holds, by the name of a set, the function that answers the input of one of its cases.
var answers = map[string]func(input json.RawMessage) (any, error){
	"admission":       answerAdmission,
	"capping":         answerCapping,
	"eviction_limits": answerEvictionLimits,
	"histogram":       answerHistogram,
	"priority":        answerPriority,
	"quantity":        answerQuantity,
	"recommendation":  answerRecommendation,
	"selectors":       answerSelectors,
	"surface":         answerSurface,
	"vpa_validation":  answerValidation,
}

type golden struct {
	Set   string       `json:"set"`
	Cases []goldenCase `json:"cases"`
}

type goldenCase struct {
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
}

func main() {
	flag.Parse()
	log.SetFlags(0)
	klog.SetLogger(logr.Discard())
	var questions golden
	if err := json.NewDecoder(os.Stdin).Decode(&questions); err != nil {
		log.Fatalf("not a golden file: %v", err)
	}
	answer, known := answers[questions.Set]
	if !known {
		log.Fatalf("unknown set %q", questions.Set)
	}
	var lines [][]byte
	for _, question := range questions.Cases {
		expected, err := answerOrPanic(answer, question.Input)
		if err != nil {
			log.Printf("%s: dropped %q: %v", questions.Set, question.Name, err)
			continue
		}
		lines = append(lines, line(question, expected))
	}
	fmt.Printf("{\"set\":%s,\n\"upstream\":%s,\n\"cases\":[\n", compact(questions.Set), compact(upstream()))
	os.Stdout.Write(bytes.Join(lines, []byte(",\n")))
	fmt.Print("\n]}\n")
}

func answerOrPanic(answer func(json.RawMessage) (any, error), input json.RawMessage) (expected any, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("the original panics: %v", cause)
		}
	}()
	return answer(input)
}

// line writes one case; its input keeps the bytes it came with.
func line(question goldenCase, expected any) []byte {
	return fmt.Appendf(nil, `{"name":%s,"input":%s,"expected":%s}`,
		compact(question.Name), question.Input, compact(expected))
}

// compact writes JSON with the keys of every object sorted and no character escaped needlessly.
func compact(value any) []byte {
	ordered, err := json.Marshal(value)
	if err != nil {
		log.Fatalf("an answer is no JSON: %v", err)
	}
	var sorted any
	decoder := json.NewDecoder(bytes.NewReader(ordered))
	decoder.UseNumber()
	if err := decoder.Decode(&sorted); err != nil {
		log.Fatalf("an answer is no JSON: %v", err)
	}
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(sorted); err != nil {
		log.Fatalf("an answer is no JSON: %v", err)
	}
	return bytes.TrimSuffix(buffer.Bytes(), []byte("\n"))
}

// upstream names the versions that this program was really built with.
func upstream() string {
	const vpa, apimachinery = "k8s.io/autoscaler/vertical-pod-autoscaler", "k8s.io/apimachinery"
	versions := map[string]string{}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			versions[module.Path] = module.Version
		}
	}
	return fmt.Sprintf("%s %s (%s %s)", vpa, versions[vpa], apimachinery, versions[apimachinery])
}

// setGates turns the given feature gates on and all others off.
func setGates(on map[string]bool) error {
	gates := map[string]bool{}
	for gate := range features.MutableFeatureGate.GetAll() {
		gates[string(gate)] = on[string(gate)]
	}
	gates["AllAlpha"], gates["AllBeta"] = false, false
	return features.MutableFeatureGate.SetFromMap(gates)
}
