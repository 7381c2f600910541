-- The health of a LlamaDeployment in Argo CD's words; obj is the object.
local function is(health, message)
  return { status = health, message = message }
end

if obj.metadata.deletionTimestamp ~= nil then
  return is("Progressing", "It is being deleted.")
end
local status = obj.status or {}
if status.observedGeneration ~= obj.metadata.generation then
  return is("Progressing", "The operator has not acted on this generation yet.")
end
local conditions = {}
for _, condition in ipairs(status.conditions or {}) do
  conditions[condition.type] = condition
end
local ready, reconciling, stalled = conditions.Ready, conditions.Reconciling, conditions.Stalled
if stalled ~= nil and stalled.status == "True" then
  return is("Degraded", stalled.message)
end
if reconciling ~= nil and reconciling.status == "True" then
  return is("Progressing", reconciling.message)
end
if ready ~= nil and ready.status == "True" then
  return is("Healthy", ready.message)
end
return is("Progressing", ready ~= nil and ready.message or "It has no condition Ready yet.")
