use syn::{Expr, ExprPath};

pub(super) const MADE_FOR_EACH_CALL: &str = "`manager` must outlive the call, as in `manager = self.locks`: a new one is made for each call, \
                                  whose lock excludes no other call; make it once, and keep it in a field, a parameter or a static";

/// The function that makes a manager, if the expression calls one: each call of the guarded function would have a manager of its own.
pub(super) fn made_for_each_call(value: &Expr) -> Option<&ExprPath> {
    match value {
        Expr::Call(call) => match &*call.func {
            Expr::Path(path) => {
                let mut names = path.path.segments.iter().rev().map(|segment| &segment.ident);
                let makes =
                    names.next().is_some_and(|name| name == "in_memory" || name == "builder" || name == "default");
                let is_ours = names.next().is_some_and(|ty| ty == "LockManager" || ty == "LockManagerBuilder");
                (makes && is_ours).then_some(path)
            }
            _ => None,
        },
        Expr::MethodCall(call) => made_for_each_call(&call.receiver),
        Expr::Reference(value) => made_for_each_call(&value.expr),
        Expr::Try(value) => made_for_each_call(&value.expr),
        Expr::Await(value) => made_for_each_call(&value.base),
        Expr::Paren(value) => made_for_each_call(&value.expr),
        Expr::Group(value) => made_for_each_call(&value.expr),
        _ => None,
    }
}
