// What device code takes from headers that NVRTC has not: <cstdint>, <cfloat>, <climits>, <cmath>'s
// constants, of namespace std what is used within kernels, torch's small floats, which compute as
// floats, and its packed accessors, laid out as in TensorAccessor.h: a pointer, sizes, strides.
#include <cuda_fp16.h>
#include <cuda_bf16.h>
typedef signed char int8_t; typedef unsigned char uint8_t;
typedef short int16_t; typedef unsigned short uint16_t;
typedef int int32_t; typedef unsigned int uint32_t;
typedef long long int64_t; typedef unsigned long long uint64_t; typedef unsigned int uint;
typedef long long intptr_t; typedef unsigned long long uintptr_t;
namespace c10 {
template <class S> S to(float v);
template <> __half to(float v) { return __float2half(v); }
template <> __nv_bfloat16 to(float v) { return __float2bfloat16(v); }
inline float of(__half v) { return __half2float(v); }
inline float of(__nv_bfloat16 v) { return __bfloat162float(v); }
template <class S, bool E> struct Small {
  S x;
  Small() = default;
  Small(S v) : x(v) {}
  Small(float v) : x(to<S>(v)) {}
  operator float() const { return of(x); }
  explicit(E) operator S() const { return x; }
#define SOLKIT_ASSIGNING(op) \
  Small& operator op##=(float v) { return *this = *this op v; } \
  Small& operator op##=(S v) { return *this = *this op of(v); } \
  Small& operator op##=(Small v) { return *this = *this op of(v.x); }
  SOLKIT_ASSIGNING(+) SOLKIT_ASSIGNING(-) SOLKIT_ASSIGNING(*) SOLKIT_ASSIGNING(/)
#undef SOLKIT_ASSIGNING
};
typedef Small<__half, false> Half; typedef Small<__nv_bfloat16, true> BFloat16;
}
namespace at {
using namespace c10;
template <class T> struct DefaultPtrTraits { typedef T* PtrType; };
template <class T> struct RestrictPtrTraits { typedef T* __restrict__ PtrType; };
template <class T, size_t N, template <class> class P, class I> struct TensorAccessor {
  typename P<T>::PtrType data_; const I* sizes_; const I* strides_;
  TensorAccessor<T, N - 1, P, I> operator[](I i) const {
    return {data_ + strides_[0] * i, sizes_ + 1, strides_ + 1};
  }
  I size(I i) const { return sizes_[i]; }
};
template <class T, template <class> class P, class I> struct TensorAccessor<T, 1, P, I> {
  typename P<T>::PtrType data_; const I* sizes_; const I* strides_;
  T& operator[](I i) const { return data_[strides_[0] * i]; }
  I size(I i) const { return sizes_[i]; }
};
template <class T, size_t N, template <class> class P = DefaultPtrTraits, class I = int64_t>
struct PackedTensorAccessor {
  typename P<T>::PtrType data_; I sizes_[N]; I strides_[N];
  decltype(auto) operator[](I i) const {
    return TensorAccessor<T, N, P, I>{data_, sizes_, strides_}[i];
  }
  I size(I i) const { return sizes_[i]; }
  I stride(I i) const { return strides_[i]; }
  T* data() const { return data_; }
};
template <class T, size_t N, template <class> class P = DefaultPtrTraits>
using PackedTensorAccessor32 = PackedTensorAccessor<T, N, P, int>;
template <class T, size_t N, template <class> class P = DefaultPtrTraits>
using PackedTensorAccessor64 = PackedTensorAccessor<T, N, P, int64_t>;
}
namespace torch { using namespace at; }
#define FLT_MAX 3.402823466e+38F
#define FLT_MIN 1.175494351e-38F
#define FLT_EPSILON 1.192092896e-07F
#define DBL_MAX 1.7976931348623158e+308
#define INT_MAX 2147483647
#define INT_MIN (-INT_MAX - 1)
#define UINT_MAX 4294967295U
#define LLONG_MAX 9223372036854775807LL
#define __builtin_prefetch(...) ((void)0)
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif
#ifndef NAN
#define NAN __int_as_float(0x7fffffff)
#endif
#define M_PI 3.14159265358979323846
#define M_SQRT1_2 0.70710678118654752440
#define M_SQRT2 1.41421356237309504880
#define M_2_SQRTPI 1.12837916709551257390
#define M_1_PI 0.31830988618379067154
#define M_E 2.71828182845904523536
#define M_LN2 0.69314718055994530942
#define M_LOG2E 1.44269504088896340736
#ifdef SOLKIT_WHOLE_STD  // libcu++, which takes seconds
#include <cuda/std/algorithm>
#include <cuda/std/array>
#include <cuda/std/bit>
#include <cuda/std/cmath>
#include <cuda/std/functional>
#include <cuda/std/limits>
#include <cuda/std/numeric>
#include <cuda/std/optional>
#include <cuda/std/tuple>
#include <cuda/std/type_traits>
#include <cuda/std/utility>
namespace std {
using namespace cuda::std;
using ::size_t; using ::int64_t; using ::int32_t; using ::uint32_t; using ::uint64_t;
using ::int8_t; using ::uint8_t;
}
#else
namespace std {
using ::size_t; using ::int64_t; using ::int32_t; using ::uint32_t; using ::uint64_t;
using ::int8_t; using ::uint8_t;
template <class T> constexpr T max(T a, T b) { return a < b ? b : a; }
template <class T> constexpr T min(T a, T b) { return b < a ? b : a; }
template <class T> struct numeric_limits;
template <> struct numeric_limits<float> {
  static float infinity() { return INFINITY; } static constexpr float max() { return FLT_MAX; }
  static constexpr float min() { return FLT_MIN; }
  static constexpr float lowest() { return -FLT_MAX; }
  static constexpr float epsilon() { return FLT_EPSILON; } static float quiet_NaN() { return NAN; }
};
template <> struct numeric_limits<double> {
  static double infinity() { return INFINITY; } static constexpr double max() { return DBL_MAX; }
  static constexpr double lowest() { return -DBL_MAX; }
};
template <> struct numeric_limits<int> {
  static constexpr int max() { return INT_MAX; } static constexpr int min() { return INT_MIN; }
  static constexpr int lowest() { return INT_MIN; }
};
template <bool B, class T, class F> struct conditional { typedef T type; };
template <class T, class F> struct conditional<false, T, F> { typedef F type; };
template <bool B, class T, class F> using conditional_t = typename conditional<B, T, F>::type;
template <class A, class B> struct is_same { static constexpr bool value = false; };
template <class A> struct is_same<A, A> { static constexpr bool value = true; };
template <class A, class B> inline constexpr bool is_same_v = is_same<A, B>::value;
}
#endif
