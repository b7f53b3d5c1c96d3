package main

import (
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	vpa_types "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"
	recommender_config "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/config"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/logic"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/model"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/routines"
)

type recommendationInput struct {
	FeatureGates map[string]bool                  `json:"featureGates"`
	Pods         []sampledPod                     `json:"pods"`
	Selector     *metav1.LabelSelector            `json:"selector"`
	Steps        []step                           `json:"steps"`
	Vpa          *vpa_types.VerticalPodAutoscaler `json:"vpa"`
}

type sampledPod struct {
	Name       string                         `json:"name"`
	Labels     labels.Set                     `json:"labels"`
	Containers map[string]corev1.ResourceList `json:"containers"`
}

type step struct {
	Type                 string    `json:"type"`
	Pod                  string    `json:"pod"`
	Container            string    `json:"container"`
	Start                time.Time `json:"start"`
	StepSeconds          int       `json:"stepSeconds"`
	Count                int       `json:"count"`
	CPUMillicores        []int64   `json:"cpuMillicores"`
	MemoryBytes          []int64   `json:"memoryBytes"`
	Time                 time.Time `json:"time"`
	RequestedMemoryBytes int64     `json:"requestedMemoryBytes"`
}

func answerRecommendation(input json.RawMessage) (any, error) {
	var in recommendationInput
	if err := json.Unmarshal(input, &in); err != nil {
		return nil, err
	}
	if err := setGates(in.FeatureGates); err != nil {
		return nil, err
	}
	cluster, err := fillCluster(in)
	if err != nil {
		return nil, err
	}
	discarded := []int{}
	for _, step := range in.Steps {
		count, err := runStep(cluster, step)
		if err != nil {
			return nil, err
		}
		discarded = append(discarded, count)
	}
	vpa := cluster.VPAs()[model.VpaID{Namespace: in.Vpa.Namespace, VpaName: in.Vpa.Name}]
	states := routines.GetContainerNameToAggregateStateMap(vpa)
	aggregates, err := showAggregates(states)
	if err != nil {
		return nil, err
	}
	return map[string]any{
		"aggregates":       aggregates,
		"discardedPerStep": discarded,
		"recommendation":   recommend(in.Vpa, states),
	}, nil
}

func fillCluster(in recommendationInput) (model.ClusterState, error) {
	cluster := model.NewClusterState(time.Hour)
	for _, pod := range in.Pods {
		id := model.PodID{Namespace: "default", PodName: pod.Name}
		cluster.AddOrUpdatePod(id, pod.Labels, corev1.PodRunning)
		for name, requests := range pod.Containers {
			err := cluster.AddOrUpdateContainer(model.ContainerID{PodID: id, ContainerName: name}, model.Resources{
				model.ResourceCPU:    model.ResourceAmount(requests.Cpu().MilliValue()),
				model.ResourceMemory: model.ResourceAmount(requests.Memory().Value()),
			})
			if err != nil {
				return nil, err
			}
		}
	}
	selector, err := metav1.LabelSelectorAsSelector(in.Selector)
	if err != nil {
		return nil, err
	}
	return cluster, cluster.AddOrUpdateVpa(in.Vpa, selector)
}

// runStep counts what the model refuses.
func runStep(cluster model.ClusterState, step step) (discarded int, err error) {
	id := model.ContainerID{
		PodID:         model.PodID{Namespace: "default", PodName: step.Pod},
		ContainerName: step.Container,
	}
	switch step.Type {
	case "oom":
		if cluster.RecordOOM(id, step.Time, model.ResourceAmount(step.RequestedMemoryBytes)) != nil {
			discarded++
		}
	case "series":
		for index := range step.Count {
			moment := step.Start.Add(time.Duration(index*step.StepSeconds) * time.Second)
			discarded += addSample(cluster, id, moment, model.ResourceCPU, step.CPUMillicores, index)
			discarded += addSample(cluster, id, moment, model.ResourceMemory, step.MemoryBytes, index)
		}
	default:
		return 0, fmt.Errorf("unknown step %q", step.Type)
	}
	return discarded, nil
}

func addSample(
	cluster model.ClusterState, id model.ContainerID, moment time.Time, resource model.ResourceName, usage []int64, index int,
) (discarded int) {
	if len(usage) == 0 {
		return 0
	}
	err := cluster.AddSample(&model.ContainerUsageSampleWithKey{
		Container: id,
		ContainerUsageSample: model.ContainerUsageSample{
			MeasureStart: moment,
			Usage:        model.ResourceAmount(usage[index%len(usage)]),
			Resource:     resource,
		},
	})
	if err != nil {
		return 1
	}
	return 0
}

func showAggregates(states model.ContainerNameToAggregateStateMap) (map[string]any, error) {
	aggregates := map[string]any{}
	for name, state := range states {
		checkpoint, err := state.SaveToCheckpoint()
		if err != nil {
			return nil, err
		}
		aggregates[name] = map[string]any{
			"cpuHistogram":      showCheckpoint(checkpoint.CPUHistogram),
			"firstSampleStart":  showTime(checkpoint.FirstSampleStart.Time),
			"lastSampleStart":   showTime(checkpoint.LastSampleStart.Time),
			"memoryHistogram":   showCheckpoint(checkpoint.MemoryHistogram),
			"totalSamplesCount": checkpoint.TotalSamplesCount,
		}
	}
	return aggregates, nil
}

// recommend estimates and caps with the recommender's default flags.
func recommend(
	vpa *vpa_types.VerticalPodAutoscaler, states model.ContainerNameToAggregateStateMap,
) *vpa_types.RecommendedPodResources {
	flags := recommender_config.DefaultRecommenderConfig()
	recommender := logic.CreatePodResourceRecommender(logic.RecommendationConfig{
		SafetyMarginFraction:       flags.SafetyMarginFraction,
		PodMinCPUMillicores:        flags.PodMinCPUMillicores,
		PodMinMemoryMb:             flags.PodMinMemoryMb,
		TargetCPUPercentile:        flags.TargetCPUPercentile,
		LowerBoundCPUPercentile:    flags.LowerBoundCPUPercentile,
		UpperBoundCPUPercentile:    flags.UpperBoundCPUPercentile,
		ConfidenceIntervalCPU:      flags.ConfidenceIntervalCPU,
		TargetMemoryPercentile:     flags.TargetMemoryPercentile,
		LowerBoundMemoryPercentile: flags.LowerBoundMemoryPercentile,
		UpperBoundMemoryPercentile: flags.UpperBoundMemoryPercentile,
		ConfidenceIntervalMemory:   flags.ConfidenceIntervalMemory,
	})
	recommendation := logic.MapToListOfRecommendedContainerResources(
		recommender.GetRecommendedPodResources(states), logic.RecommendationFormat{
			HumanizeMemory:     flags.HumanizeMemory,
			RoundCPUMillicores: flags.RoundCPUMillicores,
			RoundMemoryBytes:   flags.RoundMemoryBytes,
		})
	return routines.NewCappingRecommendationProcessor(nil).Process(vpa, recommendation)
}
