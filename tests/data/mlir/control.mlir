// Loops and branches between operations, as JAX's fori_loop, while_loop, cond, switch and scan give.

#id = affine_map<(d0) -> (d0)>

func.func @powers(%x: tensor<4xf32>, %n: tensor<i32>) -> tensor<4xf32> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %stop = tensor.extract %n[] : tensor<i32>
  %0 = scf.for %i = %c0 to %stop step %c1 iter_args(%p = %x) -> (tensor<4xf32>) : i32 {
    %1 = arith.mulf %p, %x : tensor<4xf32>
    scf.yield %1 : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}

// Carried on in another order, as it came, and as the number of the step.
func.func @swapped(%a: tensor<4xf32>, %b: tensor<4xf32>, %n: index)
    -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, index) {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %0:4 = scf.for %i = %c0 to %n step %c2 iter_args(%x = %a, %y = %b, %z = %a, %k = %c0)
      -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, index) {
    scf.yield %y, %x, %z, %i : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, index
  }
  return %0#0, %0#1, %0#2, %0#3 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, index
}

func.func @collatz(%n: tensor<i64>) -> (tensor<i64>, i64) {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %c2 = arith.constant 2 : i64
  %c3 = arith.constant 3 : i64
  %0:2 = scf.while (%x = %n, %k = %c0) : (tensor<i64>, i64) -> (tensor<i64>, i64) {
    %1 = tensor.extract %x[] : tensor<i64>
    %2 = arith.cmpi sgt, %1, %c1 : i64
    scf.condition(%2) %x, %k : tensor<i64>, i64
  } do {
  ^bb0(%x: tensor<i64>, %k: i64):
    %1 = tensor.extract %x[] : tensor<i64>
    %2 = arith.remsi %1, %c2 : i64
    %3 = arith.cmpi eq, %2, %c0 : i64
    %4 = scf.if %3 -> (i64) {
      %7 = arith.divsi %1, %c2 : i64
      scf.yield %7 : i64
    } else {
      %7 = arith.muli %1, %c3 : i64
      %8 = arith.addi %7, %c1 : i64
      scf.yield %8 : i64
    }
    %5 = tensor.from_elements %4 : tensor<i64>
    %6 = arith.addi %k, %c1 : i64
    scf.yield %5, %6 : tensor<i64>, i64
  }
  return %0#0, %0#1 : tensor<i64>, i64
}

// What decides passes on something else than it is given.
func.func @halved(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<f32>) {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %half = arith.constant dense<0.5> : tensor<4xf32>
  %0:2 = scf.while (%a = %x) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<f32>) {
    %e = tensor.empty() : tensor<f32>
    %z = linalg.fill ins(%zero : f32) outs(%e : tensor<f32>) -> tensor<f32>
    %s = linalg.reduce ins(%a : tensor<4xf32>) outs(%z : tensor<f32>) dimensions = [0]
      (%in: f32, %sum: f32) {
        %1 = arith.addf %in, %sum : f32
        linalg.yield %1 : f32
      }
    %2 = tensor.extract %s[] : tensor<f32>
    %3 = arith.cmpf ogt, %2, %one : f32
    %4 = arith.mulf %a, %half : tensor<4xf32>
    scf.condition(%3) %4, %s : tensor<4xf32>, tensor<f32>
  } do {
  ^bb0(%a: tensor<4xf32>, %s: tensor<f32>):
    scf.yield %a : tensor<4xf32>
  }
  return %0#0, %0#1 : tensor<4xf32>, tensor<f32>
}

func.func @chosen(%c: i1, %a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
  %0 = scf.if %c -> tensor<4xf32> {
    scf.yield %a : tensor<4xf32>
  } else {
    %1 = arith.subf %b, %a : tensor<4xf32>
    scf.yield %1 : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}

func.func @switched(%k: index, %a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = scf.index_switch %k -> tensor<4xf32>
  case 2 {
    %1 = arith.addf %a, %a : tensor<4xf32>
    scf.yield %1 : tensor<4xf32>
  }
  case 5 {
    %1 = arith.mulf %a, %a : tensor<4xf32>
    scf.yield %1 : tensor<4xf32>
  }
  default {
    scf.yield %a : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}

// A loop in a loop, over rows of a table that is a constant inside.
func.func @rows(%x: tensor<3xf32>) -> tensor<3xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %0 = scf.for %i = %c0 to %c2 step %c1 iter_args(%a = %x) -> (tensor<3xf32>) {
    %1 = scf.for %j = %c0 to %i step %c1 iter_args(%b = %a) -> (tensor<3xf32>) {
      %table = arith.constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32>
      %row = tensor.extract_slice %table[%i, 0] [1, 3] [1, 1] : tensor<2x3xf32> to tensor<3xf32>
      %2 = arith.addf %b, %row : tensor<3xf32>
      scf.yield %2 : tensor<3xf32>
    }
    %3 = arith.addf %1, %x : tensor<3xf32>
    scf.yield %3 : tensor<3xf32>
  }
  return %0 : tensor<3xf32>
}

func.func @doubled(%x: tensor<?xf32>, %y: tensor<?xf32>, %n: index)
    -> (tensor<?xf32>, tensor<?xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %0:2 = scf.for %i = %c0 to %n step %c1 iter_args(%a = %x, %b = %x)
      -> (tensor<?xf32>, tensor<?xf32>) {
    %1 = tensor.concat dim(0) %a, %a : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
    %2 = arith.addf %b, %y : tensor<?xf32>
    scf.yield %1, %2 : tensor<?xf32>, tensor<?xf32>
  }
  %3 = arith.addf %0#1, %x : tensor<?xf32>
  return %0#0, %3 : tensor<?xf32>, tensor<?xf32>
}

func.func @complex(%x: tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %0 = scf.for %i = %c0 to %c3 step %c1 iter_args(%a = %x) -> (tensor<4xcomplex<f32>>) {
    %e = tensor.empty() : tensor<4xcomplex<f32>>
    %1 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]}
        ins(%a, %x : tensor<4xcomplex<f32>>, tensor<4xcomplex<f32>>)
        outs(%e : tensor<4xcomplex<f32>>) {
    ^bb0(%p: complex<f32>, %q: complex<f32>, %o: complex<f32>):
      %2 = complex.mul %p, %q : complex<f32>
      linalg.yield %2 : complex<f32>
    } -> tensor<4xcomplex<f32>>
    scf.yield %1 : tensor<4xcomplex<f32>>
  }
  return %0 : tensor<4xcomplex<f32>>
}

// What steps insert lies in one tensor for all of them, but where it is read, or may end outside.
func.func @recorded(%x: tensor<4x3xf32>, %a: tensor<4x3xf32>, %n: index)
    -> (tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>, tensor<3xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %zero = arith.constant dense<0.0> : tensor<3xf32>
  %0:4 = scf.for %i = %c0 to %n step %c1 iter_args(%p = %a, %q = %a, %r = %a, %sum = %zero)
      -> (tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>, tensor<3xf32>) {
    %at = arith.minsi %i, %c3 : index
    %row = tensor.extract_slice %x[%at, 0] [1, 3] [1, 1] : tensor<4x3xf32> to tensor<3xf32>
    %1 = arith.addf %sum, %row : tensor<3xf32>
    %low = arith.maxsi %at, %c0 : index
    %2 = tensor.insert_slice %1 into %p[%low, 0] [1, 3] [1, 1] : tensor<3xf32> into tensor<4x3xf32>
    %before = tensor.extract_slice %q[%low, 0] [1, 3] [1, 1] : tensor<4x3xf32> to tensor<3xf32>
    %3 = arith.addf %before, %1 : tensor<3xf32>
    %4 = tensor.insert_slice %3 into %q[%low, 0] [1, 3] [1, 1] : tensor<3xf32> into tensor<4x3xf32>
    %5 = tensor.insert_slice %1 into %r[%i, 0] [1, 3] [1, 1] : tensor<3xf32> into tensor<4x3xf32>
    scf.yield %2, %4, %5, %1
        : tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>, tensor<3xf32>
  }
  return %0#0, %0#1, %0#2, %0#3
      : tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>, tensor<3xf32>
}
