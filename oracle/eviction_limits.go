package main

import (
	"encoding/json"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	core "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"

	vpa_types "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/updater/restriction"
)

// loopTime is when the updater's loop runs in this set.
var loopTime = time.Date(2024, time.March, 10, 12, 0, 0, 0, time.UTC)

type controller struct {
	Kind     string `json:"kind"`
	Name     string `json:"name"`
	Replicas int32  `json:"replicas"`
}

type evictionInput struct {
	FeatureGates      map[string]bool                  `json:"featureGates"`
	Controllers       []controller                     `json:"controllers"`
	Pods              []*corev1.Pod                    `json:"pods"`
	Vpa               *vpa_types.VerticalPodAutoscaler `json:"vpa"`
	Attempts          []string                         `json:"attempts"`
	MinReplicas       int                              `json:"minReplicas"`
	EvictionTolerance float64                          `json:"evictionTolerance"`
	SkipBudget        bool                             `json:"inPlaceSkipDisruptionBudget"`
}

func answerEvictionLimits(input json.RawMessage) (any, error) {
	var in evictionInput
	if err := json.Unmarshal(input, &in); err != nil {
		return nil, err
	}
	if err := setGates(in.FeatureGates); err != nil {
		return nil, err
	}
	limiter, err := evictionRestriction(in)
	if err != nil {
		return nil, err
	}
	expected := map[string]any{}
	atFirst := map[string]bool{}
	var evictable []*corev1.Pod
	for _, pod := range in.Pods {
		atFirst[pod.Name] = limiter.CanEvict(pod)
		if atFirst[pod.Name] {
			evictable = append(evictable, pod)
		}
	}
	var evicted []string
	if in.Attempts != nil {
		expected["attempts"], evicted = attempt(limiter, in)
	} else {
		order := updateOrder(in.Vpa, evictable, loopTime, byDirection(in.Vpa, in.Pods))
		expected["updateOrder"] = podNames(order)
		evicted = evictInOrder(limiter, in.Vpa, order)
	}
	expected["canEvictAtFirst"] = atFirst
	expected["evicted"] = evicted
	expected["evictedCount"] = len(evicted)
	return expected, nil
}

func attempt(limiter restriction.PodsEvictionRestriction, in evictionInput) (results []any, evicted []string) {
	byName := map[string]*corev1.Pod{}
	for _, pod := range in.Pods {
		byName[pod.Name] = pod
	}
	evicted = []string{}
	for _, name := range in.Attempts {
		result := map[string]any{"evicted": true, "pod": name}
		if err := limiter.Evict(byName[name], in.Vpa, &record.FakeRecorder{}); err != nil {
			result["evicted"], result["error"] = false, err.Error()
		} else {
			evicted = append(evicted, name)
		}
		results = append(results, result)
	}
	return results, evicted
}

func evictInOrder(
	limiter restriction.PodsEvictionRestriction, vpa *vpa_types.VerticalPodAutoscaler, order []*corev1.Pod,
) []string {
	evicted := []string{}
	for _, pod := range order {
		if limiter.CanEvict(pod) && limiter.Evict(pod, vpa, &record.FakeRecorder{}) == nil {
			evicted = append(evicted, pod.Name)
		}
	}
	return evicted
}

func evictionRestriction(in evictionInput) (restriction.PodsEvictionRestriction, error) {
	client := fake.NewSimpleClientset()
	client.PrependReactor("create", "pods", func(core.Action) (bool, runtime.Object, error) {
		return true, nil, nil // every eviction that gets as far as the API server succeeds
	})
	informerFactory := informers.NewSharedInformerFactory(client, 0)
	for _, controller := range in.Controllers {
		if err := store(informerFactory, controller); err != nil {
			return nil, err
		}
	}
	factory := restriction.NewPodsRestrictionFactory(
		client, informerFactory, in.MinReplicas, in.EvictionTolerance, nil, in.SkipBudget)
	groups, creators, err := factory.GetCreatorMaps(in.Pods, in.Vpa)
	if err != nil {
		return nil, err
	}
	return factory.NewPodsEvictionRestriction(groups, creators), nil
}

// store puts a controller where the original's informers would have put it.
func store(factory informers.SharedInformerFactory, controller controller) error {
	meta := metav1.ObjectMeta{Namespace: "default", Name: controller.Name}
	apps := factory.Apps().V1()
	switch controller.Kind {
	case "ReplicaSet":
		return apps.ReplicaSets().Informer().GetStore().Add(
			&appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Replicas: &controller.Replicas}})
	case "StatefulSet":
		return apps.StatefulSets().Informer().GetStore().Add(
			&appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Replicas: &controller.Replicas}})
	case "DaemonSet":
		return apps.DaemonSets().Informer().GetStore().Add(
			&appsv1.DaemonSet{ObjectMeta: meta, Status: appsv1.DaemonSetStatus{DesiredNumberScheduled: controller.Replicas}})
	case "ReplicationController":
		return factory.Core().V1().ReplicationControllers().Informer().GetStore().Add(
			&corev1.ReplicationController{ObjectMeta: meta, Spec: corev1.ReplicationControllerSpec{Replicas: &controller.Replicas}})
	}
	return fmt.Errorf("unknown kind of controller %q", controller.Kind)
}
