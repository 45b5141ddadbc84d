package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// wire can be cut: then its connections break and it makes no new ones.
type wire struct {
	lock  sync.Mutex
	cut   bool
	conns []net.Conn
	asked []string
}

func (w *wire) dial(ctx context.Context, network, address string) (net.Conn, error) {
	w.lock.Lock()
	defer w.lock.Unlock()
	if w.cut {
		return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err == nil {
		w.conns = append(w.conns, conn)
	}
	return conn, err
}

func (w *wire) set(cut bool) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.cut, w.asked = cut, nil
	if cut {
		for _, conn := range w.conns {
			_ = conn.Close()
		}
		w.conns = nil
	}
}

// answered holds the queries that got an answer since the wire was last cut or mended.
func (w *wire) answered() []string {
	w.lock.Lock()
	defer w.lock.Unlock()
	return append([]string(nil), w.asked...)
}

type recorder struct {
	wire  *wire
	inner http.RoundTripper
}

func (r recorder) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := r.inner.RoundTrip(request)
	if err == nil {
		r.wire.lock.Lock()
		r.wire.asked = append(r.wire.asked, request.URL.RawQuery)
		r.wire.lock.Unlock()
	}
	return response, err
}

// expiredInformer is cut off while the server forgets what it missed: it must take the whole state anew, and then hold what the server
// holds, no object lost and no ghost left. The server's window is a MiB.
func expiredInformer(ctx context.Context, client kubernetes.Interface, config *rest.Config) {
	const namespace = "expired"
	_, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	check(err)
	objects := client.CoreV1().ConfigMaps(namespace)
	create := func(name string) {
		_, err := objects.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		check(err)
	}
	for n := range 30 {
		create(fmt.Sprintf("here-%d", n))
	}
	line := &wire{}
	config = rest.CopyConfig(config)
	config.Dial = line.dial
	config.Wrap(func(inner http.RoundTripper) http.RoundTripper { return recorder{line, inner} })
	remote, err := kubernetes.NewForConfig(config)
	check(err)
	factory := informers.NewSharedInformerFactoryWithOptions(remote, 0, informers.WithNamespace(namespace))
	shared := factory.Core().V1().ConfigMaps()
	shared.Informer()
	factory.Start(ctx.Done())
	served := func() (map[string]string, string) {
		list, err := objects.List(ctx, metav1.ListOptions{})
		check(err)
		versions := map[string]string{}
		for _, object := range list.Items {
			versions[object.Name] = object.ResourceVersion
		}
		return versions, list.ResourceVersion
	}
	holds := func(wanted map[string]string) {
		until(ctx, func() (int, bool) {
			list, err := shared.Lister().List(labels.Everything())
			expect(err == nil, "%v", err)
			right := 0
			for _, object := range list {
				if wanted[object.Name] == object.ResourceVersion {
					right++
				}
			}
			return right, right == len(wanted) && right == len(list)
		})
	}
	before, _ := served()
	holds(before)
	// A watch that broke before it told anything is no reason to go on from where it was, to client-go: so it tells something.
	create("live")
	var old string
	before, old = served()
	holds(before)

	line.set(true)
	for n := range 30 {
		switch name := fmt.Sprintf("here-%d", n); n % 3 {
		case 0:
			check(objects.Delete(ctx, name, metav1.DeleteOptions{}))
		case 1:
			object, err := objects.Get(ctx, name, metav1.GetOptions{})
			check(err)
			object.Data = map[string]string{"changed": "yes"}
			_, err = objects.Update(ctx, object, metav1.UpdateOptions{})
			check(err)
		default:
			create(fmt.Sprintf("new-%d", n))
		}
	}
	passTheWindow(ctx, client, namespace, old)
	after, _ := served()
	holds(before)
	line.set(false)
	holds(after)
	asked := line.answered()
	resumed, whole := -1, -1
	for n, query := range asked {
		switch {
		case strings.Contains(query, "watch=true") && !strings.Contains(query, "sendInitialEvents"):
			resumed = max(resumed, n)
		default:
			whole = n
		}
		if whole >= 0 {
			break
		}
	}
	expect(resumed >= 0 && whole > resumed, "first where it was, then anew: %q", asked)
	// It is live again.
	create("last")
	after, _ = served()
	holds(after)
	fmt.Println("an informer comes through a 410")
}

// passTheWindow writes until a watch from `old` is told that this is gone, and sees how it is told.
func passTheWindow(ctx context.Context, client kubernetes.Interface, namespace, old string) {
	objects := client.CoreV1().ConfigMaps(namespace)
	ballast, err := objects.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "ballast"}}, metav1.CreateOptions{})
	check(err)
	for n := range 64 {
		ballast.Data = map[string]string{"a": fmt.Sprint(n), "b": strings.Repeat("x", 100<<10)}
		ballast, err = objects.Update(ctx, ballast, metav1.UpdateOptions{})
		check(err)
	}
	stream, err := objects.Watch(ctx, metav1.ListOptions{ResourceVersion: old})
	check(err)
	defer stream.Stop()
	event, open := <-stream.ResultChan()
	expect(open && event.Type == watch.Error && apierrors.IsResourceExpired(apierrors.FromObject(event.Object)), "a watch from %s: %v", old, event)
	_, err = objects.List(ctx, metav1.ListOptions{ResourceVersion: old, ResourceVersionMatch: metav1.ResourceVersionMatchExact})
	expect(apierrors.IsResourceExpired(err), "a list of %s: %v", old, err)
}
