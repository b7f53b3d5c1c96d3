package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	vpa_types "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/utils/limitrange"
	vpa_api_util "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/utils/vpa"
)

type cappingInput struct {
	Function                 string                                    `json:"function"`
	Vpa                      *vpa_types.VerticalPodAutoscaler          `json:"vpa"`
	Pod                      *corev1.Pod                               `json:"pod"`
	LimitRanges              []corev1.LimitRange                       `json:"limitRanges"`
	ContainerRecommendations []vpa_types.RecommendedContainerResources `json:"containerRecommendations"`
	ContainerPolicies        []vpa_types.ContainerResourcePolicy       `json:"containerPolicies"`
	GlobalMaxAllowed         corev1.ResourceList                       `json:"globalMaxAllowed"`
}

func answerCapping(input json.RawMessage) (any, error) {
	var in cappingInput
	if err := json.Unmarshal(input, &in); err != nil {
		return nil, err
	}
	switch in.Function {
	case "forPod":
		return capForPod(in)
	case "forRecommender":
		return capForRecommender(in)
	}
	return nil, fmt.Errorf("unknown function %q", in.Function)
}

func capForPod(in cappingInput) (any, error) {
	limitRanges, err := limitRangeCalculator(in.LimitRanges)
	if err != nil {
		return nil, err
	}
	processor := vpa_api_util.NewCappingRecommendationProcessor(limitRanges)
	recommendation, annotations, err := processor.Apply(in.Vpa, in.Pod)
	if err != nil {
		return map[string]any{"error": err.Error()}, nil
	}
	sorted := map[string][]string{}
	for container, notes := range annotations {
		sorted[container] = sortNotes(notes)
	}
	return map[string]any{"annotations": sorted, "recommendation": recommendation}, nil
}

func capForRecommender(in cappingInput) (any, error) {
	var policy *vpa_types.PodResourcePolicy
	if in.ContainerPolicies != nil {
		policy = &vpa_types.PodResourcePolicy{ContainerPolicies: in.ContainerPolicies}
	}
	recommendation, err := vpa_api_util.ApplyVPAPolicy(
		&vpa_types.RecommendedPodResources{ContainerRecommendations: in.ContainerRecommendations},
		policy, in.GlobalMaxAllowed)
	if err != nil {
		return map[string]any{"error": err.Error()}, nil
	}
	return map[string]any{"recommendation": recommendation}, nil
}

// limitRangeCalculator reads from an informer's store that is filled by hand and never started.
func limitRangeCalculator(limitRanges []corev1.LimitRange) (limitrange.LimitRangeCalculator, error) {
	factory := informers.NewSharedInformerFactory(fake.NewSimpleClientset(), 0)
	store := factory.Core().V1().LimitRanges().Informer().GetStore()
	for index := range limitRanges {
		if err := store.Add(&limitRanges[index]); err != nil {
			return nil, err
		}
	}
	return limitrange.NewLimitsRangeCalculator(factory)
}

// sortNotes orders the notes that the original writes while walking a map, by resource name, and
// leaves the order of the walks as it is.
func sortNotes(notes []string) []string {
	return slices.SortedStableFunc(slices.Values(notes), func(one, other string) int {
		return cmp.Or(cmp.Compare(walk(one), walk(other)), cmp.Compare(subject(one), subject(other)))
	})
}

// walk numbers the walks in the order in which the original makes them for a container.
func walk(note string) int {
	switch {
	case strings.HasSuffix(note, "container LimitRange"):
		return 0
	case strings.HasSuffix(note, "minAllowed"), strings.HasSuffix(note, "maxAllowed"):
		return 1
	case strings.HasSuffix(note, "container limit"):
		return 2
	case strings.Contains(note, ": "):
		return 3
	case strings.HasSuffix(note, " request"):
		return 4
	}
	return 5
}

// subject is the resource that a note is about.
func subject(note string) string {
	resource, _, _ := strings.Cut(note, " ")
	return strings.TrimSuffix(resource, ":")
}
