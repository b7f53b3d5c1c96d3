package main

import (
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"

	vpa_types "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"
	updater_config "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/updater/config"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/updater/priority"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/utils/limitrange"
	vpa_api_util "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/utils/vpa"
)

func answerPriority(input json.RawMessage) (any, error) {
	var in struct {
		FeatureGates map[string]bool                  `json:"featureGates"`
		Now          time.Time                        `json:"now"`
		Pods         []*corev1.Pod                    `json:"pods"`
		Vpa          *vpa_types.VerticalPodAutoscaler `json:"vpa"`
	}
	if err := json.Unmarshal(input, &in); err != nil {
		return nil, err
	}
	if err := setGates(in.FeatureGates); err != nil {
		return nil, err
	}
	priorities := map[string]any{}
	for _, pod := range in.Pods {
		capped, _, err := capper().Apply(in.Vpa, pod)
		if err != nil {
			return nil, err
		}
		found := priority.NewProcessor().GetUpdatePriority(pod, in.Vpa, capped)
		priorities[pod.Name] = map[string]any{
			"outsideRecommendedRange": found.OutsideRecommendedRange,
			"resourceDiff":            found.ResourceDiff,
			"scaleUp":                 found.ScaleUp,
		}
	}
	admitAll := priority.NewDefaultPodEvictionAdmission()
	return map[string]any{
		"acceptedInOrder": podNames(updateOrder(in.Vpa, in.Pods, in.Now, admitAll)),
		"priorities":      priorities,
		"updateOrder":     podNames(updateOrder(in.Vpa, in.Pods, in.Now, byDirection(in.Vpa, in.Pods))),
	}, nil
}

// updateOrder is what the updater's loop does with pods that may be updated, at a moment of our choice.
func updateOrder(
	vpa *vpa_types.VerticalPodAutoscaler, pods []*corev1.Pod, now time.Time, admission priority.PodEvictionAdmission,
) []*corev1.Pod {
	flags := updater_config.DefaultUpdaterConfig()
	calculator := priority.NewUpdatePriorityCalculator(vpa, priority.UpdateConfig{
		MinChangePriority:          flags.DefaultUpdateThreshold,
		PodLifetimeUpdateThreshold: flags.PodLifetimeUpdateThreshold,
		EvictAfterOOMThreshold:     flags.EvictAfterOOMThreshold,
	}, capper(), priority.NewProcessor())
	for _, pod := range pods {
		calculator.AddPod(pod, now, nil)
	}
	return calculator.GetSortedPods(admission)
}

func byDirection(vpa *vpa_types.VerticalPodAutoscaler, pods []*corev1.Pod) priority.PodEvictionAdmission {
	admission := priority.NewScalingDirectionPodEvictionAdmission()
	admission.LoopInit(pods, map[*vpa_types.VerticalPodAutoscaler][]*corev1.Pod{vpa: pods})
	return admission
}

func capper() vpa_api_util.RecommendationProcessor {
	return vpa_api_util.NewCappingRecommendationProcessor(limitrange.NewNoopLimitsCalculator())
}

func podNames(pods []*corev1.Pod) []string {
	names := []string{}
	for _, pod := range pods {
		names = append(names, pod.Name)
	}
	return names
}
