package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/spf13/pflag"

	admission_config "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/admission-controller/config"
	recommender_config "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/config"
	updater_config "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/updater/config"
	metrics_admission "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/utils/metrics/admission"
	metrics_quality "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/utils/metrics/quality"
	metrics_recommender "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/utils/metrics/recommender"
	metrics_resources "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/utils/metrics/resources"
	metrics_updater "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/utils/metrics/updater"
	componentbaseconfig "k8s.io/component-base/config"
	componentbaseoptions "k8s.io/component-base/config/options"
)

// A component declares its flags and registers its metrics as its main function does.
type component struct {
	flags   func()
	elects  bool
	metrics []func()
}

var components = map[string]component{
	"recommender": {
		func() { recommender_config.InitRecommenderFlags() },
		true,
		[]func(){metrics_recommender.Register, metrics_quality.Register, metrics_resources.Register},
	},
	"updater": {
		func() { updater_config.InitUpdaterFlags() },
		true,
		[]func(){metrics_updater.Register},
	},
	"admission-controller": {
		func() { admission_config.InitAdmissionControllerFlags() },
		false,
		[]func(){metrics_admission.Register},
	},
}

type metric struct {
	Kind   string   `json:"kind"`
	Labels []string `json:"labels"`
}

// answerSurface lists the names of all flags of a component, and all of its metrics.
func answerSurface(input json.RawMessage) (any, error) {
	var question struct {
		Component string `json:"component"`
	}
	if err := json.Unmarshal(input, &question); err != nil {
		return nil, err
	}
	asked, known := components[question.Component]
	if !known {
		return nil, fmt.Errorf("no component %q", question.Component)
	}
	return map[string]any{"flags": listFlags(asked), "metrics": listMetrics(asked)}, nil
}

func listFlags(asked component) []string {
	// They are declared on variables of their packages, and each component declares some anew.
	flag.CommandLine = flag.NewFlagSet("surface", flag.PanicOnError)
	pflag.CommandLine = pflag.NewFlagSet("surface", pflag.PanicOnError)
	os.Args = os.Args[:1]
	if asked.elects {
		componentbaseoptions.BindLeaderElectionFlags(&componentbaseconfig.LeaderElectionConfiguration{}, pflag.CommandLine)
	}
	asked.flags()
	var found []string
	pflag.CommandLine.VisitAll(func(each *pflag.Flag) { found = append(found, "--"+each.Name) })
	return found
}

func listMetrics(asked component) map[string]metric {
	recorder := &recorder{Registerer: prometheus.NewRegistry(), found: map[string]metric{}}
	prometheus.DefaultRegisterer = recorder
	for _, register := range asked.metrics {
		register()
	}
	return recorder.found
}

// A recorder notes what is registered, as a family without series is nowhere else to be seen.
type recorder struct {
	prometheus.Registerer
	found map[string]metric
}

var description = regexp.MustCompile(`fqName: "([^"]+)".*variableLabels: \{([^}]*)\}`)

func (r *recorder) MustRegister(collectors ...prometheus.Collector) {
	for _, each := range collectors {
		descriptions := make(chan *prometheus.Desc, 16)
		each.Describe(descriptions)
		close(descriptions)
		for one := range descriptions {
			parts := description.FindStringSubmatch(one.String())
			labels := strings.FieldsFunc(parts[2], func(r rune) bool { return r == ',' })
			r.found[parts[1]] = metric{kindOf(each), labels}
		}
	}
}

func kindOf(each prometheus.Collector) string {
	name := strings.ToLower(reflect.TypeOf(each).String())
	for _, kind := range []string{"counter", "histogram", "gauge"} {
		if strings.Contains(name, kind) {
			return kind
		}
	}
	var written dto.Metric
	single, isMetric := each.(prometheus.Metric)
	if !isMetric || single.Write(&written) != nil {
		return name
	}
	switch {
	case written.Counter != nil:
		return "counter"
	case written.Histogram != nil:
		return "histogram"
	default:
		return "gauge"
	}
}
