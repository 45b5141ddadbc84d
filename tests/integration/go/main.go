// Command integration is a foreign client: client-go's informers, workers and conflict handling against one API server.
// It prints one line per finding and ends with 1 when something is not as upstream's.
package main

import (
	"context"
	"fmt"
	"os"
	"runtime/pprof"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/retry"
)

const (
	// patience bounds a standstill, and nothing else: each step begins it anew, so a machine may be as slow as it likes.
	patience = 2 * time.Minute
	writers  = 200
	objects  = 50
)

var (
	steps atomic.Int64
	stall = time.AfterFunc(patience, func() {
		// Where everybody stands.
		_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 1)
		expect(false, "nothing goes on: %d steps, and no other for %v", steps.Load(), patience)
	})
)

// step says that something was done that need not be done again.
func step() {
	steps.Add(1)
	stall.Reset(patience)
}

// until looks until it is right; each time that more is there than before is a step.
func until(ctx context.Context, look func() (there int, right bool)) {
	last := -1
	check(wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(context.Context) (bool, error) {
		there, right := look()
		if there > last {
			last = there
			step()
		}
		return right, nil
	}))
}

func main() {
	ctx := context.Background()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	check(err)
	config.QPS = -1
	// What a typed client sends since 0.32, and asks for first.
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	client, err := kubernetes.NewForConfig(config)
	check(err)
	crud(ctx, client)
	informer(ctx, client)
	expiredInformer(ctx, client, config)
	oneObjectManyWriters(ctx, client)
	fmt.Println("ok")
}

func crud(ctx context.Context, client kubernetes.Interface) {
	maps := client.CoreV1().ConfigMaps("default")
	created, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "go"}, Data: map[string]string{"a": "1"}}, metav1.CreateOptions{})
	check(err)
	_, err = maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "go"}}, metav1.CreateOptions{})
	expect(apierrors.IsAlreadyExists(err), "a second create: %v", err)
	stale := created.DeepCopy()
	created.Data["a"] = "2"
	updated, err := maps.Update(ctx, created, metav1.UpdateOptions{})
	check(err)
	expect(updated.ResourceVersion > stale.ResourceVersion || len(updated.ResourceVersion) > len(stale.ResourceVersion), "revision fell")
	_, err = maps.Update(ctx, stale, metav1.UpdateOptions{})
	expect(apierrors.IsConflict(err), "a stale update: %v", err)
	patched, err := maps.Patch(ctx, "go", types.StrategicMergePatchType, []byte(`{"data":{"b":"3"}}`), metav1.PatchOptions{})
	check(err)
	expect(patched.Data["a"] == "2" && patched.Data["b"] == "3", "patched: %v", patched.Data)
	check(maps.Delete(ctx, "go", metav1.DeleteOptions{}))
	_, err = maps.Get(ctx, "go", metav1.GetOptions{})
	expect(apierrors.IsNotFound(err), "after the delete: %v", err)
	fmt.Println("create, read, update, conflict, patch, delete")
}

// informer sees everything that was there, everything that comes and goes, and holds in the end what the server holds.
func informer(ctx context.Context, client kubernetes.Interface) {
	maps := client.CoreV1().ConfigMaps("default")
	add := func(n int) {
		_, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("informed-%d", n)}}, metav1.CreateOptions{})
		check(err)
	}
	for n := range objects {
		add(n)
	}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace("default"))
	shared := factory.Core().V1().ConfigMaps()
	var lock sync.Mutex
	deleted := map[string]bool{}
	_, err := shared.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: func(gone any) {
		if object, ok := gone.(*corev1.ConfigMap); ok {
			lock.Lock()
			defer lock.Unlock()
			deleted[object.Name] = true
		}
	}})
	check(err)
	factory.Start(ctx.Done())
	expect(cache.WaitForCacheSync(ctx.Done(), shared.Informer().HasSynced), "the informer never synced")
	for n := range objects {
		_, err := shared.Lister().ConfigMaps("default").Get(fmt.Sprintf("informed-%d", n))
		check(err)
	}
	for n := objects; n < 2*objects; n++ {
		add(n)
	}
	for n := range objects {
		check(maps.Delete(ctx, fmt.Sprintf("informed-%d", n), metav1.DeleteOptions{}))
	}
	until(ctx, func() (int, bool) {
		lock.Lock()
		gone := len(deleted)
		lock.Unlock()
		count := 0
		for n := objects; n < 2*objects; n++ {
			if _, err := shared.Lister().ConfigMaps("default").Get(fmt.Sprintf("informed-%d", n)); err == nil {
				count++
			}
		}
		return gone + count, gone == objects && count == objects
	})
	fmt.Println("an informer sees all that comes and goes")
}

// oneObjectManyWriters: each adds one under optimistic concurrency; none is lost.
func oneObjectManyWriters(ctx context.Context, client kubernetes.Interface) {
	maps := client.CoreV1().ConfigMaps("default")
	_, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "counter"}, Data: map[string]string{"n": "0"}}, metav1.CreateOptions{})
	check(err)
	var all sync.WaitGroup
	// No Cap: a backoff that reaches its cap has no steps left, and the writer gives up.
	backoff := wait.Backoff{Steps: 10_000, Duration: 20 * time.Millisecond, Jitter: 5}
	for range writers {
		all.Go(func() {
			check(retry.RetryOnConflict(backoff, func() error {
				object, err := maps.Get(ctx, "counter", metav1.GetOptions{})
				if err != nil {
					return err
				}
				n, err := strconv.Atoi(object.Data["n"])
				if err != nil {
					return err
				}
				object.Data["n"] = strconv.Itoa(n + 1)
				_, err = maps.Update(ctx, object, metav1.UpdateOptions{})
				return err
			}))
		})
	}
	all.Wait()
	object, err := maps.Get(ctx, "counter", metav1.GetOptions{})
	check(err)
	expect(object.Data["n"] == strconv.Itoa(writers), "%s of %d updates", object.Data["n"], writers)
	fmt.Println("200 writers on one object, no update lost")
}

// check is for what has to be done once: that it was is a step.
func check(err error) {
	expect(err == nil, "%v", err)
	step()
}

func expect(right bool, format string, args ...any) {
	if !right {
		fmt.Fprintf(os.Stderr, format+"\n", args...)
		os.Exit(1)
	}
}
